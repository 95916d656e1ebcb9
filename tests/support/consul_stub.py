"""The part of Consul's HTTP API that node agents use, on loopback."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit

_SELF = {
    "Config": {
        "Datacenter": "east",
        "NodeName": "host-1",
        "Server": False,
        "Version": "1.17.2",
        "Revision": "abc",
    },
    "DebugConfig": {"ConnectEnabled": True},
}


class ConsulStub:
    """`services` and `checks` are what was registered; requests without `token` are refused."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.services: dict[str, dict[str, Any]] = {}
        self.checks: dict[str, dict[str, Any]] = {}
        self.registered = 0
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not self._allowed():
                    return
                path = urlsplit(self.path).path
                found = {"/v1/agent/self": _SELF, "/v1/agent/services": stub.services}.get(path)
                self._reply(404 if found is None else 200, found)

            def do_PUT(self) -> None:
                if not self._allowed():
                    return
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.loads(data) if data else None
                path = unquote(urlsplit(self.path).path)
                self._reply(*stub.put(path, body))

            def _allowed(self) -> bool:
                if stub.token in ("", self.headers.get("X-Consul-Token")):
                    return True
                self._reply(403, "Permission denied")
                return False

            def _reply(self, status: int, body: object) -> None:
                data = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """A test's output stays free of requests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def put(self, path: str, body: Any) -> tuple[int, object]:
        if path == "/v1/agent/service/register":
            self.registered += 1
            self.services[body["ID"]] = {"Service": body["Name"], **body}
            for check in body.get("Checks") or ():
                self.checks[check["CheckID"]] = {"Status": "critical", **check}
            return 200, None
        if path.startswith("/v1/agent/service/deregister/"):
            known = self.services.pop(path.rpartition("/")[2], None)
            return (404, "unknown service") if known is None else (200, None)
        if path.startswith("/v1/agent/check/update/"):
            check = self.checks.get(path.rpartition("/")[2])
            if check is None:
                return 404, "unknown check"
            check.update(body)
            return 200, None
        return 404, "no such path"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
