"""The cluster on which the recorded commands were run: jobs of every type, and one of everything
that a command shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from tests.support.dev_server import ApiUser
from tests.support.polling import until_blocking

_RESOURCES = {"CPU": 20, "MemoryMB": 16}


def _task(command: str, *arguments: str, **more: Any) -> dict[str, Any]:
    return {
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {"command": command, "args": list(arguments)},
        "Resources": _RESOURCES,
        **more,
    }


def _job(name: str, kind: str, task: dict[str, Any], **more: Any) -> dict[str, Any]:
    group = {"Name": "g", "Count": 1, "EphemeralDisk": {"SizeMB": 120}, **more.pop("group", {})}
    return {
        "ID": name,
        "Name": name,
        "Type": kind,
        "Datacenters": ["*"],
        "TaskGroups": [{**group, "Tasks": [task]}],
        **more,
    }


_CHECK = {"Name": "c", "Type": "tcp", "Interval": 1_000_000_000, "Timeout": 1_000_000_000}
_SERVICE = {
    "Name": "web",
    "PortLabel": "p",
    "Provider": "nomad",
    "Tags": ["a"],
    "Checks": [_CHECK],
}


_SERVE = """
import http.server, os
handler = http.server.SimpleHTTPRequestHandler
http.server.test(handler, port=int(os.environ["NOMAD_PORT_p"]), bind="127.0.0.1")
"""


def _web(meta: str) -> dict[str, Any]:
    return _job(
        "web",
        "service",
        _task(
            "python3",
            "-c",
            _SERVE,
            Env={"V": meta},
            Actions=[{"Name": "hi", "Command": "/bin/echo", "Args": ["hi"]}],
        ),
        group={
            "Count": 2,
            "Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "p"}]}],
            "Services": [_SERVICE],
            "Scaling": {"Min": 0, "Max": 5, "Enabled": True},
            "Update": {"MinHealthyTime": 1_000_000, "HealthyDeadline": 60_000_000_000},
        },
    )


_NEVER_AGAIN = {"Attempts": 0, "Mode": "fail"}
JOBS = (
    _job("done", "batch", _task("/bin/echo", "hi")),
    _job("big", "batch", _task("/bin/true", Resources={"CPU": 20, "MemoryMB": 9_000_000})),
    _job(
        "fail",
        "batch",
        _task("/bin/false"),
        group={
            "RestartPolicy": _NEVER_AGAIN,
            "ReschedulePolicy": {"Attempts": 0, "Unlimited": False},
        },
    ),
    _job(
        "per",
        "batch",
        _task("/bin/true"),
        Periodic={"Enabled": True, "SpecType": "cron", "Spec": "0 0 1 1 *"},
    ),
    _job(
        "param",
        "batch",
        _task("/bin/true"),
        ParameterizedJob={"Payload": "optional", "MetaOptional": ["m"]},
    ),
)


def play(user: ApiUser) -> dict[str, str]:
    """Makes the cluster; returns the ids that the recorded commands name in braces."""
    headers = {"X-Nomad-Token": user.token} if user.token else {}
    http = httpx.Client(base_url=user.address, headers=headers, trust_env=False, timeout=30)

    def put(path: str, body: Any) -> Any:
        answer = http.put(path, json=body)
        assert answer.status_code < 300, f"PUT {path}: {answer.text}"
        return answer.json() if answer.content else None

    put("/v1/namespace/dev", {"Name": "dev", "Description": "d", "Meta": {"a": "b"}})
    put("/v1/node/pool/p1", {"Name": "p1", "Description": "d", "Meta": {"a": "b"}})
    put("/v1/var/app/x", {"Path": "app/x", "Items": {"a": "b"}})
    node = user.get("/v1/nodes")[0]["ID"]
    put("/v1/client/metadata", {"Meta": {"rack": "r1", "zone": "a"}})
    volume = put(
        "/v1/volume/host/create",
        {
            "Volume": {
                "Name": "vol",
                "NodeID": node,
                "PluginID": "mkdir",
                "RequestedCapabilities": [
                    {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
                ],
            }
        },
    )["Volume"]["ID"]
    for version in ("0", "1", "2"):
        put("/v1/jobs", {"Job": _web(version)})
        user.wait_for(
            "/v1/job/web/deployments",
            lambda found, version=version: any(
                each["JobVersion"] == int(version) and each["Status"] == "successful"
                for each in found
            ),
        )
    for job in JOBS:
        put("/v1/jobs", {"Job": job})
    put("/v1/job/per/periodic/force", {})
    put("/v1/job/param/dispatch", {"Payload": "aGk="})
    http.put("/v1/job/web/versions/first/tag", json={"Version": 0, "Description": "d"})
    put("/v1/job/web/scale", {"Count": 2, "Target": {"Group": "g"}, "Message": "m"})
    until_blocking(lambda: _ended(user, "done") and _ended(user, "fail"))
    running = user.running_allocations("web", 2)
    evals = user.get("/v1/evaluations")
    return {
        "alloc": running[0]["ID"],
        "alloc-done": user.get("/v1/job/done/allocations")[0]["ID"],
        "alloc-failed": user.get("/v1/job/fail/allocations")[0]["ID"],
        "eval": next(each["ID"] for each in evals if each["JobID"] == "web"),
        "eval-blocked": next(
            each["ID"] for each in evals if each["JobID"] == "big" and each["Status"] == "complete"
        ),
        "deployment": user.get("/v1/job/web/deployment")["ID"],
        "node": node,
        "volume": volume,
        "scaling": user.get("/v1/scaling/policies")[0]["ID"],
        **_access_objects(put),
    }


def _access_objects(put: Callable[[str, Any], Any]) -> dict[str, str]:
    """Makes one access control object of each kind; returns their ids."""
    links = [{"Name": "pol"}]
    rules = 'namespace "default" { policy = "read" }'
    put("/v1/acl/policy/pol", {"Name": "pol", "Description": "d", "Rules": rules})
    token = {"Name": "c", "Type": "client", "Policies": ["pol"], "ExpirationTTL": "1h"}
    method = {
        "Name": "jm",
        "Type": "JWT",
        "TokenLocality": "local",
        "MaxTokenTTL": "1h",
        "Config": {"JWKSURL": "http://127.0.0.1:1/keys"},
    }
    put("/v1/acl/auth-method", method)
    rule = {"AuthMethod": "jm", "BindType": "policy", "BindName": "pol"}
    return {
        "role": put("/v1/acl/role", {"Name": "role", "Policies": links})["ID"],
        "accessor": put("/v1/acl/token", token)["AccessorID"],
        "rule": put("/v1/acl/binding-rule", rule)["ID"],
    }


def _ended(user: ApiUser, job_id: str) -> bool:
    found = user.get(f"/v1/job/{job_id}/allocations")
    return bool(found) and found[0]["ClientStatus"] in ("complete", "failed")
