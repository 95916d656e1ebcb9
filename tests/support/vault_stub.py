"""The part of Vault's HTTP API that node agents use, on loopback: logins by JWT, and renewals."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.support.json_http_stub import JsonHttpStub, StubRequest


class VaultStub(JsonHttpStub):
    """Tokens are `hvs.1`, `hvs.2` ...; a token in `revoked` is not renewed any more."""

    def __init__(self, lease_s: int = 3600) -> None:
        self.lease_s = lease_s
        self.logins: list[dict[str, Any]] = []
        """The claims of each login's JWT, with its role and namespace."""
        self.renewed: list[str] = []
        self.revoked: set[str] = set()
        self.refuses = False
        self.secrets: dict[str, dict[str, Any]] = {}
        """Answers by path; what is below `secret/` is of version 2."""
        self.readers: list[tuple[str, str]] = []
        """Token and namespace of each request for a secret."""
        self.writable: dict[str, tuple[int, object]] = {}
        """Answers to data that is written, by path."""
        self.written: list[tuple[str, Any]] = []
        self.lease_left_s = 0
        """What a renewed lease of a secret has."""
        super().__init__()

    def answer(self, request: StubRequest) -> tuple[int, object]:
        if request.method == "PUT" and request.path.removeprefix("/v1/") in self.writable:
            self.written.append((request.path.removeprefix("/v1/"), request.body))
            return self.writable[request.path.removeprefix("/v1/")]
        if request.path == "/v1/sys/leases/renew":
            return 200, {"lease_duration": self.lease_left_s, "renewable": True}
        if request.method == "GET" and request.path != "/v1/sys/health":
            return self._secret(request)
        if request.method == "GET":
            return 200, {"version": "1.15.4", "cluster_name": "blue"}
        return self._log_in(request) if request.method == "POST" else self._renew(request)

    def _log_in(self, request: StubRequest) -> tuple[int, object]:
        if request.path != "/v1/auth/jwt-nomad/login" or self.refuses:
            return 400, {"errors": ["role could not be found"]}
        claims = json.loads(_decoded(request.body["jwt"].split(".")[1]))
        namespace = request.headers.get("X-Vault-Namespace", "")
        self.logins.append({**claims, "role": request.body.get("role"), "namespace": namespace})
        return self._granted(f"hvs.{len(self.logins)}")

    def _secret(self, request: StubRequest) -> tuple[int, object]:
        token = request.headers.get("X-Vault-Token", "")
        if not token or token in self.revoked:
            return 403, {"errors": ["permission denied"]}
        self.readers.append((token, request.headers.get("X-Vault-Namespace", "")))
        path = request.path.removeprefix("/v1/")
        if path.startswith("sys/internal/ui/mounts/"):
            mount = path.removeprefix("sys/internal/ui/mounts/").split("/")[0]
            version = "2" if mount == "secret" else "1"
            return 200, {"data": {"path": f"{mount}/", "options": {"version": version}}}
        found = self.secrets.get(path)
        return (404, {"errors": []}) if found is None else (200, found)

    def _renew(self, request: StubRequest) -> tuple[int, object]:
        token = request.headers.get("X-Vault-Token", "")
        if token in self.revoked:
            return 403, {"errors": ["permission denied"]}
        self.renewed.append(token)
        return self._granted(token)

    def _granted(self, token: str) -> tuple[int, object]:
        auth = {"client_token": token, "lease_duration": self.lease_s, "renewable": True}
        return 200, {"auth": auth}


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
