"""The part of Consul's HTTP API that node agents use, on loopback."""

from __future__ import annotations

import base64
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


_NODES: list[dict[str, Any]] = [
    {"ID": "n2", "Node": "host-2", "Address": "10.9.9.2", "Datacenter": "east"},
    {"ID": "n1", "Node": "host-1", "Address": "10.9.9.1", "Meta": {"rack": "r1"}},
]
_CATALOG: dict[str, object] = {
    "/v1/catalog/nodes": _NODES,
    "/v1/catalog/node/host-1": {
        "Node": _NODES[1],
        "Services": {
            "w2": {"ID": "w2", "Service": "web", "Port": 81, "Tags": ["b", "a"]},
            "w1": {"ID": "w1", "Service": "web", "Port": 80},
        },
    },
    "/v1/agent/connect/ca/roots": {
        "Roots": [{"ID": "r1", "Name": "root", "RootCert": "ROOT PEM", "Active": True}]
    },
    "/v1/agent/connect/ca/leaf/web": {
        "SerialNumber": "01",
        "CertPEM": "LEAF PEM",
        "PrivateKeyPEM": "LEAF KEY",
        "Service": "web",
    },
    "/v1/peerings": [{"Name": "west", "State": "ACTIVE", "Meta": {"team": "red"}}],
    "/v1/config/exported-services": [
        {"Services": [{"Name": "web", "Consumers": [{"Peer": "west"}, {"Partition": "p"}]}]}
    ],
}


class ConsulStub(JsonHttpStub):
    """`services` and `checks` are what was registered; requests without `token` are refused."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.services: dict[str, dict[str, Any]] = {}
        self.checks: dict[str, dict[str, Any]] = {}
        self.registered = 0
        self.deregistered: list[str] = []
        self.refused: set[str] = set()
        """Names of services that are not registered."""
        self.keys: dict[str, str] = {}
        self.instances: list[tuple[str, str, list[str], list[str]]] = []
        """Of the service `web`: id, address, tags, and the states of its checks."""
        self.queries: list[str] = []
        """Of the requests for keys."""
        self.broken = False
        super().__init__()

    def answer(self, request: StubRequest) -> tuple[int, object]:
        if self.token not in ("", request.headers.get("X-Consul-Token")):
            return 403, "Permission denied"
        if request.method == "PUT":
            return self._put(request.path, request.body)
        if self.broken:
            return 200, [{"Strange": True}]
        if request.path.startswith("/v1/kv/"):
            self.queries.append(request.query)
            return self._keys(request.path.removeprefix("/v1/kv/"), "recurse" in request.query)
        if request.path == "/v1/health/service/web":
            return 200, [_instance(*each) for each in self.instances]
        if request.path == "/v1/catalog/services":
            return 200, {"web": ["blue"], "api": []}
        if request.path == "/v1/catalog/datacenters":
            return 200, ["west", "east"]
        if request.path == "/v1/health/connect/web":
            return 200, [_instance(*each) for each in self.instances[:1]]
        found = {
            "/v1/agent/self": _SELF,
            "/v1/agent/services": self.services,
            **_CATALOG,
        }.get(request.path)
        return (404, None) if found is None else (200, found)

    def _keys(self, name: str, recurse: bool) -> tuple[int, object]:
        found = [
            {"Key": key, "Value": base64.b64encode(value.encode()).decode(), "ModifyIndex": 7}
            for key, value in sorted(self.keys.items())
            if key == name or (recurse and key.startswith(name))
        ]
        return (200, found) if found else (404, None)

    def _put(self, path: str, body: Any) -> tuple[int, object]:
        if path == "/v1/agent/service/register":
            if body["Name"] in self.refused:
                return 400, f"Invalid service name {body['Name']}"
            self.registered += 1
            self.services[body["ID"]] = {"Service": body["Name"], **body}
            for check in body.get("Checks") or ():
                self.checks[check["CheckID"]] = {"Status": "critical", **check}
            return 200, None
        if path.startswith("/v1/agent/service/deregister/"):
            self.deregistered.append(path.rpartition("/")[2])
            known = self.services.pop(self.deregistered[-1], None)
            return (404, "unknown service") if known is None else (200, None)
        if path.startswith("/v1/agent/check/update/"):
            check = self.checks.get(path.rpartition("/")[2])
            if check is None:
                return 404, "unknown check"
            check.update(body)
            return 200, None
        return 404, "no such path"


def _instance(id_: str, address: str, tags: list[str], states: list[str]) -> dict[str, Any]:
    checks = [
        {"CheckID": "_node_maintenance", "Status": "critical"}
        if state == "maintenance"
        else {"CheckID": "c", "Status": state}
        for state in states
    ]
    service = {
        "ID": id_,
        "Service": "web",
        "Tags": tags,
        "Address": address,
        "Port": 80,
        "Meta": {"team": "red"},
    }
    node = {"Node": "host-1", "Address": "10.9.9.9", "Datacenter": "east"}
    return {"Node": node, "Service": service, "Checks": checks}
