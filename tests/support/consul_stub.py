"""The part of Consul's HTTP API that node agents use, on loopback."""

from __future__ import annotations

from typing import Any

from tests.support.json_http_stub import JsonHttpStub, StubRequest

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


class ConsulStub(JsonHttpStub):
    """`services` and `checks` are what was registered; requests without `token` are refused."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.services: dict[str, dict[str, Any]] = {}
        self.checks: dict[str, dict[str, Any]] = {}
        self.registered = 0
        super().__init__()

    def answer(self, request: StubRequest) -> tuple[int, object]:
        if self.token not in ("", request.headers.get("X-Consul-Token")):
            return 403, "Permission denied"
        if request.method == "PUT":
            return self._put(request.path, request.body)
        found = {"/v1/agent/self": _SELF, "/v1/agent/services": self.services}.get(request.path)
        return (404, None) if found is None else (200, found)

    def _put(self, path: str, body: Any) -> tuple[int, object]:
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
