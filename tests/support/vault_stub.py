"""The part of Vault's HTTP API that node agents use, on loopback: logins by JWT, and renewals."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class VaultStub:
    """Tokens are `hvs.1`, `hvs.2` ...; a token in `revoked` is not renewed any more."""

    def __init__(self, lease_s: int = 3600) -> None:
        self.lease_s = lease_s
        self.logins: list[dict[str, Any]] = []
        """The claims of each login's JWT, with its role and namespace."""
        self.renewed: list[str] = []
        self.revoked: set[str] = set()
        self.refuses = False
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply(200, {"version": "1.15.4", "cluster_name": "blue"})

            def do_POST(self) -> None:
                body = self._body()
                if self.path != "/v1/auth/jwt-nomad/login" or stub.refuses:
                    self._reply(400, {"errors": ["role could not be found"]})
                    return
                claims = json.loads(_decoded(body["jwt"].split(".")[1]))
                namespace = self.headers.get("X-Vault-Namespace", "")
                stub.logins.append({**claims, "role": body.get("role"), "namespace": namespace})
                self._grant(f"hvs.{len(stub.logins)}")

            def do_PUT(self) -> None:
                self._body()
                token = self.headers.get("X-Vault-Token", "")
                if token in stub.revoked:
                    self._reply(403, {"errors": ["permission denied"]})
                    return
                stub.renewed.append(token)
                self._grant(token)

            def _grant(self, token: str) -> None:
                auth = {
                    "client_token": token,
                    "lease_duration": stub.lease_s,
                    "renewable": True,
                }
                self._reply(200, {"auth": auth})

            def _body(self) -> Any:
                return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

            def _reply(self, status: int, body: object) -> None:
                data = json.dumps(body).encode()
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

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
