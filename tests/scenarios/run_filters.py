"""Sends recorded list requests: `python -m tests.scenarios.run_filters DIR [--addr URL]`.

`filters.json` holds expressions by list, `lists.json` walks over pages and single requests. Without
an address a server and an agent are started. What differs on purpose is named with its reason. The
last line is `N passed, N failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from agent.config import HostVolumeConfig
from tests.compat.acl_scenario import acl_rig
from tests.support.golden_steps import differences, print_result, without_intended
from tests.support.recorded_scenario import RecordedScenario

MAX_PAGES = 12
_TAKES_THEM = "a list of namespaces takes filter, per_page and next_token"
ON_PURPOSE = (
    (r"^namespaces filter ", "", _TAKES_THEM),
    (r"^pages of /v1/namespaces ", "", _TAKES_THEM),
    (r"^namespaces\?.*(filter|per_page|next_token)=", "", _TAKES_THEM),
    (r"^services\?.*prefix=", "", "a list of services takes prefix"),
    (r"^pages of /v1/vars .*reverse=true", r"^\$: 12 items", "the pages end"),
    (r"^volumes\?type=host filter 'State ", "", "recorded before the volumes were ready"),
)
"""What differs on purpose: in which request, in which line, and why (docs/api.md)."""
NAME_KEYS: tuple[tuple[str, ...], ...] = (
    # The keys that name an item, the first that it has all of.
    ("Namespace", "Name", "ClientStatus"),
    ("Namespace", "JobID", "TriggeredBy", "Status"),
    ("Namespace", "Path"),
    ("ServiceName",),
    ("Namespace", "ID", "Priority"),
    ("Namespace", "Name"),
    ("Namespace", "JobID"),
    ("Name",),
    ("ID",),
)


class FilterScenario:
    """The jobs, variables, pools and volumes that the recorded lists show."""

    def __init__(self, http: httpx.Client, directory: str) -> None:
        self.http = http
        self.scenario = RecordedScenario(http, directory)
        self._others()
        for job in _jobs():
            self._write("/v1/jobs", {"Job": job})
            self.scenario.settle(deployments=False)

    def _write(self, path: str, body: dict[str, Any]) -> None:
        answer = self.http.put(path, json=body)
        assert answer.status_code == 200, f"{path}: {answer.text}"

    def _others(self) -> None:
        for name in ("dev", "prod"):
            self._write("/v1/namespace", {"Name": name, "Meta": {"team": name}})
        for name in ("pa", "pb", "pc"):
            self._write("/v1/node/pools", {"Name": name, "Meta": {"k": name}})
        for path in ("app/a", "app/b", "app/sub/c", "nomad/jobs/alpha", "web", "zz"):
            self._write(f"/v1/var/{path}", {"Path": path, "Items": {"k": "v"}})
        self._write("/v1/var/app/d?namespace=dev", {"Path": "app/d", "Items": {"k": "v"}})
        for name in ("vone", "vtwo"):
            capability = {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
            volume = {"Name": name, "PluginID": "mkdir", "RequestedCapabilities": [capability]}
            self._write("/v1/volume/host/create", {"Volume": volume})
        if self.http.get("/v1/acl/tokens").status_code == 200:
            self._access_control()

    def _access_control(self) -> None:
        rules = 'namespace "default" { policy = "read" }'
        for name in ("other", "p-one", "p-two"):
            self._write(f"/v1/acl/policy/{name}", {"Name": name, "Rules": rules})
        for name in ("t1", "t2"):
            token = {"Name": name, "Type": "client", "Policies": ["p-one"]}
            self._write("/v1/acl/token", token)
        self._write("/v1/acl/token", {"Name": "t3", "Type": "management"})


def _jobs() -> Iterator[dict[str, Any]]:
    """In the order of the recording, newest last."""
    yield _job("alpha", priority=30, meta={"owner": "a", "tier": "1"}, service=["x"])
    yield _job("alphabet", priority=70, meta={"owner": "b"})
    yield _job("gamma", kind="system", Update={"MaxParallel": 1})
    yield _job("beta", kind="batch", meta={"owner": "a"}, command="true")
    yield _job("delta", count=2, service=["z"])
    spec = {"Enabled": True, "Spec": "0 0 1 1 *", "SpecType": "cron", "TimeZone": "UTC"}
    yield _job("per", kind="batch", Periodic=spec)
    yield _job("param", kind="batch", ParameterizedJob={"Payload": "optional"})
    yield _job("Upper", meta={"Case": "u"})
    yield _job("alpha", Namespace="dev")
    yield _job("zeta", Namespace="dev")
    yield _job("alpha", Namespace="prod")
    nowhere = {"LTarget": "${attr.kernel.name}", "RTarget": "plan9", "Operand": "="}
    yield _job("pinned", Constraints=[nowhere])


def _job(
    job_id: str,
    kind: str = "service",
    priority: int = 50,
    meta: dict[str, str] | None = None,
    count: int = 1,
    service: list[str] | None = None,
    command: str = "exec sleep 3600",
    **fields: Any,
) -> dict[str, Any]:
    task = {
        "Name": "t",
        "Driver": "raw_exec",
        "KillTimeout": 1_000_000_000,
        "Config": {"command": "/bin/sh", "args": ["-c", command]},
        "Resources": {"CPU": 20, "MemoryMB": 16},
        "LogConfig": {"MaxFiles": 2, "MaxFileSizeMB": 5},
    }
    group = {"Name": "g", "Count": count, "Tasks": [task], "EphemeralDisk": {"SizeMB": 120}}
    if service is not None:
        one = {"Name": job_id, "Provider": "nomad", "Address": "192.0.2.1", "Tags": service}
        group["Services"] = [one]
    return {
        "ID": job_id,
        "Name": job_id,
        "Type": kind,
        "Priority": priority,
        "Datacenters": ["*"],
        "Meta": meta,
        "TaskGroups": [group],
        **({"Update": {"MaxParallel": 0}} if kind == "service" else {}),
        **fields,
    }


def run(directory: Path, http: httpx.Client) -> dict[str, list[str]]:
    """Returns the differences by request."""
    found: dict[str, list[str]] = {}
    for name, recorded in _read(directory / "filters.json").items():
        if name.startswith("__"):
            continue
        found[name] = _compared(http, name, {}, recorded["all"], in_order=False)
        for expression, wanted in recorded["filters"].items():
            parameters = {"filter": expression}
            key = f"{name} filter {expression!r}"
            found[key] = _compared(http, name, parameters, wanted, in_order=False)
    lists = _read(directory / "lists.json")
    for walk in lists.get("pages", ()):
        key = f"pages of {walk['path']} per_page={walk['per_page']} {walk['extra']}"
        found[key] = [*differences(walk["pages"], _walked(http, walk))]
    for path, wanted in lists.get("single", {}).items():
        found[path] = _compared(http, path, {}, wanted, in_order=True)
    return found


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _compared(
    http: httpx.Client, path: str, parameters: dict[str, str], wanted: Any, in_order: bool
) -> list[str]:
    answer = _get(http, f"/v1/{path}", parameters)
    found: dict[str, Any] = {"status": answer.status_code}
    if answer.status_code != 200:
        found["text"] = answer.text
    else:
        names = _names(answer.json())
        has_count = isinstance(wanted.get("names"), dict)
        found["names"] = answer.json() if has_count else names if in_order else sorted(names)
    found["has_next_token"] = bool(answer.headers.get("X-Nomad-NextToken"))
    if isinstance(wanted.get("names"), list) and not in_order:
        wanted = {**wanted, "names": sorted(wanted["names"])}
    return [*differences(wanted, found)]


def _get(http: httpx.Client, path: str, parameters: dict[str, str]) -> httpx.Response:
    url = httpx.URL(path)
    for name, value in parameters.items():
        url = url.copy_add_param(name, value)
    return http.get(url)


def _walked(http: httpx.Client, walk: dict[str, Any]) -> list[list[str]]:
    joint = "&" if "?" in walk["path"] else "?"
    path = f"{walk['path']}{joint}per_page={walk['per_page']}{walk['extra']}"
    pages, token = [], ""
    while len(pages) < MAX_PAGES:
        answer = _get(http, path, {"next_token": token} if token else {})
        pages.append(_names(answer.json()))
        token = answer.headers.get("X-Nomad-NextToken", "")
        if not token:
            break
    return pages


def _names(value: Any) -> list[str]:
    if isinstance(value, dict):
        return sorted(value)
    names = []
    for item in value or ():
        if not isinstance(item, dict):
            names.append("?")
        elif isinstance(services := item.get("Services"), list) and "ServiceName" not in item:
            names += [f"{item['Namespace']}:{each['ServiceName']}" for each in services]
        else:
            names.append(_name(item))
    return names


def _name(item: dict[str, Any]) -> str:
    if "JobSummary" in item:
        return f"{item['JobSummary']['Namespace']}:{item['ID']}"
    for keys in NAME_KEYS:
        if all(key in item for key in keys):
            wanted = [key for key in keys if key != "Priority"]
            return ":".join(str(item[key]) for key in wanted)
    return "?"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--addr", help="of a server with an agent; without it, one is started")
    parser.add_argument("--token", default=os.environ.get("NOMAD_TOKEN", ""))
    parser.add_argument("--made", action="store_true", help="the scenario is there already")
    given = parser.parse_args()
    headers = {"X-Nomad-Token": given.token} if given.token else {}
    with tempfile.TemporaryDirectory(prefix="filters-") as directory:
        if given.addr:
            with httpx.Client(
                base_url=given.addr, headers=headers, timeout=30.0, trust_env=False
            ) as http:
                if not given.made:
                    FilterScenario(http, directory)
                found = run(given.directory, http)
        else:
            with acl_rig(Path(directory), agent_config(Path(directory))) as rig:
                FilterScenario(rig.http, directory)
                found = run(given.directory, rig.http)
    return print_result(*without_intended(found, ON_PURPOSE))


def agent_config(directory: Path) -> dict[str, Any]:
    """Returns the node of the recordings."""
    volume = directory / "hv1"
    volume.mkdir()
    return {
        "node_name": "fil",
        "meta": {"rack": "r1"},
        "network_interface": "lo",
        "drivers": {
            "raw_exec": {"enabled": True},
            "docker": {"enabled": False},
            "exec": {"enabled": False},
        },
        "host_volumes": {"hv1": HostVolumeConfig(path=str(volume))},
    }


if __name__ == "__main__":
    sys.exit(main())
