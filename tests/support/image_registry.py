"""A registry of images on loopback, with or without a password; `put` gives it an image."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

USER, PASSWORD = "anna", "secret:1"

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


@dataclass
class ImageRegistry:
    """Answers as a registry of the distribution protocol does; only pulling, of images given to it
    by `put`."""

    protected: bool = False
    requests: list[str] = field(default_factory=list)
    stalled: threading.Event = field(default_factory=threading.Event)
    """Layers are sent while it is set."""
    port: int = 0
    _blobs: dict[str, bytes] = field(default_factory=dict)
    _manifests: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stalled.set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def put(self, name: str, layer: bytes, tag: str = "1", architecture: str = "amd64") -> str:
        """Puts an image of one layer, a tar archive; returns the digest of its manifest."""
        described = {
            "architecture": architecture,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
        config = json.dumps(described).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _entry(_CONFIG, config),
                "layers": [_entry(_LAYER, layer)],
            }
        ).encode()
        for blob in (layer, config):
            self._blobs[_digest(blob)] = blob
        self._manifests[f"{name}:{tag}"] = manifest
        self._manifests[f"{name}:{_digest(manifest)}"] = manifest
        return _digest(manifest)

    def pulls_of(self, name: str) -> int:
        """How many layers were asked for."""
        return sum(line.startswith(f"/v2/{name}/blobs/") for line in self.requests) // 2

    @contextlib.contextmanager
    def serve(self) -> Iterator[ImageRegistry]:
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.answer(self)

            do_HEAD = do_GET

            def log_message(self, format: str, *arguments: object) -> None:
                registry.requests.append(getattr(self, "path", ""))

        server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stalled.set()
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        """Answers one request of the engine."""
        expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.protected and request.headers.get("Authorization") != f"Basic {expected}":
            request.send_response(401)
            request.send_header("WWW-Authenticate", 'Basic realm="here"')
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        body, kind = self._found(request.path)
        if body is None:
            unknown = json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "unknown"}]})
            request.send_response(404)
            request.send_header("Content-Length", str(len(unknown)))
            request.end_headers()
            request.wfile.write(unknown.encode() * (request.command == "GET"))
            return
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Docker-Content-Digest", _digest(body))
        request.end_headers()
        if request.command == "GET":
            half = len(body) // 2 if kind == _LAYER else len(body)
            with contextlib.suppress(OSError):
                request.wfile.write(body[:half])
                request.wfile.flush()
                if kind == _LAYER:
                    self.stalled.wait()
                request.wfile.write(body[half:])

    def _found(self, path: str) -> tuple[bytes | None, str]:
        if path in ("/v2/", "/v2"):
            return b"{}", "application/json"
        name, kind, reference = path.removeprefix("/v2/").rsplit("/", 2)
        if kind == "manifests":
            return self._manifests.get(f"{name}:{reference}"), _MANIFEST
        found = self._blobs.get(reference)
        is_config = found is not None and found.startswith(b"{")
        return found, _CONFIG if is_config else _LAYER


def _entry(kind: str, data: bytes) -> dict[str, object]:
    return {"mediaType": kind, "size": len(data), "digest": _digest(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
