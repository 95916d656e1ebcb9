"""The files that artifact cases download, and the server they come from.

The recorded cases (tests/golden/agent/artifacts.json) were made with exactly these files; a file's
owner in the archives is 4321.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import http.server
import io
import lzma
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

Entry = tuple[str, str, int, bytes]
"""(name, kind: f, d, l or h, mode, content or target)"""

TREE: tuple[Entry, ...] = (
    ("top.txt", "f", 0o644, b"top\n"),
    ("bin", "d", 0o755, b""),
    ("bin/run.sh", "f", 0o755, b"#!/bin/sh\necho hi\n"),
    ("sub", "d", 0o750, b""),
    ("sub/inner.txt", "f", 0o600, b"inner\n"),
    ("sub/deep", "d", 0o755, b""),
    ("sub/deep/d.txt", "f", 0o444, b"deep\n"),
)
_TYPES = {"d": tarfile.DIRTYPE, "l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE, "p": tarfile.FIFOTYPE}


def tar(entries: Sequence[Entry]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, mode, content in entries:
            member = tarfile.TarInfo(name)
            member.mode, member.uid, member.gid = mode, 4321, 4321
            member.mtime = 1577836800
            member.type = _TYPES.get(kind, tarfile.REGTYPE)
            if kind in ("l", "h"):
                member.linkname = content.decode()
            member.size = len(content) if kind == "f" else 0
            archive.addfile(member, io.BytesIO(content) if kind == "f" else None)
    return out.getvalue()


def zipped(entries: Sequence[Entry]) -> bytes:
    kinds = {"d": 0o040000, "f": 0o100000, "l": 0o120000}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, kind, mode, content in entries:
            info = zipfile.ZipInfo(name + "/" * (kind == "d"), (2020, 1, 1, 0, 0, 0))
            info.external_attr = (mode | kinds[kind]) << 16
            archive.writestr(info, content)
    return out.getvalue()


def packed(*entries: Entry) -> bytes:
    return gzip.compress(tar(entries), mtime=0)


def _files() -> dict[str, bytes]:
    plain, whole = tar(TREE), packed(*TREE)
    return {
        "plain.txt": b"plain content\n",
        "script.sh": b"#!/bin/sh\necho ok\n",
        "empty.txt": b"",
        "space name.txt": b"space\n",
        "žluť.txt": b"uni\n",
        "a.tar": plain,
        "a.tar.gz": whole,
        "a.tgz": whole,
        "a.tar.bz2": bz2.compress(plain),
        "a.tbz2": bz2.compress(plain),
        "a.tar.xz": lzma.compress(plain),
        "a.zip": zipped(TREE),
        "noext": whole,
        "one.txt.gz": gzip.compress(b"one file\n", mtime=0),
        "one.txt.bz2": bz2.compress(b"one file\n"),
        "one.txt.xz": lzma.compress(b"one file\n"),
        "broken.tar.gz": b"not a tar",
        "empty.tar.gz": packed(),
        "single.tar.gz": packed(("only.txt", "f", 0o640, b"only\n")),
        "evilabs.tar.gz": packed(("/tmp/recagent-evil.txt", "f", 0o644, b"evil\n")),
        "link.tar.gz": packed(("a.txt", "f", 0o644, b"a\n"), ("l", "l", 0o777, b"a.txt")),
        "linkout.tar.gz": packed(("l", "l", 0o777, b"../../../../../etc")),
        "linkabs.tar.gz": packed(("l", "l", 0o777, b"/etc/hostname")),
        "hard.tar.gz": packed(("a.txt", "f", 0o644, b"a\n"), ("h.txt", "h", 0o644, b"a.txt")),
        "suid.tar.gz": packed(("s", "f", 0o6755, b"s\n"), ("d", "d", 0o1777, b"")),
        "manyfiles.tar.gz": packed(*((f"f{i}", "f", 0o644, b"") for i in range(4200))),
        "evil.zip": zipped([("../evilzip.txt", "f", 0o644, b"e")]),
    }


class ArtifactServer:
    """`files` may be changed; `seen` has the headers of each request by path."""

    def __init__(self) -> None:
        self.files = _files()
        self.redirects: dict[str, str] = {
            "/redirect.txt": "/plain.txt",
            "/redirect.tar.gz": "/a.tar.gz",
            "/loop": "/loop",
        }
        self.seen: dict[str, dict[str, str]] = {}
        self.address = ""


def _handler(served: ArtifactServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            """Silence."""

        def do_GET(self) -> None:
            path = unquote(self.path.partition("?")[0])
            served.seen[path] = dict(self.headers.items())
            if path in served.redirects:
                return self._send(302, b"", Location=served.redirects[path])
            if path.startswith("/err"):
                return self._send(int(path[4:]), b"")
            if path == "/auth.txt":
                allowed = self.headers.get("X-Token") == "secret"
                return self._send(200 if allowed else 401, b"authed\n" if allowed else b"")
            if path == "/basic.txt":
                return self._send(200, f"{self.headers.get('Authorization')}\n".encode())
            if path == "/echo":
                return self._send(200, self._echo())
            if path == "/cut.txt":
                return self._send(200, b"x" * 10, Content_Length="1000")
            content = served.files.get(path.removeprefix("/"))
            return self._send(404 if content is None else 200, content or b"")

        def _echo(self) -> bytes:
            skipped = ("Host", "Accept-Encoding")
            headers = sorted((k, v) for k, v in self.headers.items() if k not in skipped)
            lines = [f"{self.command} {self.path}", *(f"{k}: {v}" for k, v in headers)]
            return "\n".join([*lines, ""]).encode()

        def _send(self, code: int, body: bytes, **headers: str) -> None:
            self.send_response(code)
            headers.setdefault("Content_Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

    return Handler


@contextlib.contextmanager
def artifact_server(tls: ssl.SSLContext | None = None) -> Iterator[ArtifactServer]:
    served = ArtifactServer()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(served))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    scheme = "http" if tls is None else "https"
    served.address = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
