"""Runs recorded jobs that print their environment: `python -m tests.scenarios.run_task_env DIR`.

`DIR` holds one file for each case. A server and an agent are started, with the agent's own
environment and node as in the recordings. The last line is `N passed, N failed`; the exit status is
1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.config import HostNetworkConfig
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig, server_rig

HOST_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "RECHOST": "hostvalue",
}
AGENT: dict[str, Any] = {
    "node_name": "rec1",
    "node_class": "recclass",
    "meta": {"rack": "r1", "dash-key": "dash value"},
    "host_env": HOST_ENV,
    "network_interface": "lo",
    "host_networks": {"alt": HostNetworkConfig(cidr="127.0.0.0/8")},
}
DRIVERS = {"raw_exec": {"enabled": True}, "exec": {"enabled": True}}
OF_THE_MACHINE = frozenset(("NOMAD_CPU_LIMIT",))
"""Of reserved cores: what a core of the machine does."""
OWN = re.compile("ORCHGIT_")


@contextmanager
def agent_of_the_recordings(data_dir: Path) -> Iterator[ServerRig]:
    config = {**AGENT, "drivers": DRIVERS}
    with server_rig(data_dir, agent_config=config) as rig:
        rig.wait_ready_node()
        yield rig


def problems(rig: ServerRig, case: Mapping[str, Any]) -> list[str]:
    """Runs the case; returns what differs from the recording."""
    given, wanted = case["input"], case["output"]
    job = given["job"]
    registered = rig.http.put("/v1/jobs", json={"Job": job})
    if registered.status_code != 200:
        return [f"the job was refused: {registered.text}"]
    job_id = job["ID"]
    if given["how"] == "dispatch":
        answer = rig.http.put(f"/v1/job/{job_id}/dispatch", json=given["dispatch"])
        if answer.status_code != 200:
            return [f"the dispatch was refused: {answer.text}"]
        job_id = answer.json()["DispatchedJobID"]
    elif given["how"] == "periodic":
        rig.http.put(f"/v1/job/{job_id}/periodic/force").raise_for_status()
        prefix = f"{job_id}/periodic-"
        job_id = until_blocking(lambda: _first_id(rig, prefix))
    allocs = [_started(rig, job_id, 1)[0]]
    if given["how"] == "twice":
        for task in wanted["allocs"][0]["tasks"]:
            _environment(rig, allocs[0]["ID"], task)  # printed before the next version ends it
        again = {**job, "Meta": {**(job.get("Meta") or {}), "changed": "1"}}
        rig.http.put("/v1/jobs", json={"Job": again}).raise_for_status()
        allocs = _started(rig, job_id, 2)
    found = []
    for alloc, recorded in zip(allocs, wanted["allocs"], strict=True):
        for task, expected in recorded["tasks"].items():
            environment = _environment(rig, alloc["ID"], task)
            masked = _masked(rig, environment, alloc["ID"], job_id, given["how"])
            found += _differences(task, masked, expected["environment"])
    rig.http.delete(f"/v1/job/{job['ID']}?purge=true")
    return found


def _first_id(rig: ServerRig, prefix: str) -> str:
    jobs = rig.http.get("/v1/jobs", params={"prefix": prefix}).json()
    return str(jobs[0]["ID"]) if jobs else ""


def _started(rig: ServerRig, job_id: str, count: int) -> list[dict[str, Any]]:
    """Returns the job's allocations, oldest first, when `count` of them have begun their tasks."""

    def found(allocs: list[dict[str, Any]]) -> bool:
        begun = [each for each in allocs if each["ClientStatus"] not in ("pending",)]
        return len(begun) >= count

    allocs = rig.wait_for(f"/v1/job/{job_id}/allocations", found)
    return sorted(allocs, key=lambda each: each["CreateIndex"])


def _environment(rig: ServerRig, alloc_id: str, task: str) -> dict[str, str]:
    """Returns what the task printed; a shell's job prints it and goes on."""

    def printed() -> str:
        params = {"task": task, "type": "stdout", "plain": "true"}
        answer = rig.http.get(f"/v1/client/fs/logs/{alloc_id}", params=params)
        text = answer.text if answer.status_code == 200 else ""
        return text if "NOMAD_TASK_NAME" in text and text.endswith("\0") else ""

    text = until_blocking(printed)
    return dict(line.split("=", 1) for line in text.split("\0") if line)


def _masked(
    rig: ServerRig, environment: dict[str, str], alloc_id: str, job_id: str, how: str
) -> dict[str, str]:
    masks = {
        str(rig.data_dir / "agent"): "<DATA_DIR>",
        alloc_id: "<ALLOC_ID>",
        alloc_id[:8]: "<ALLOC_ID8>",
    }
    if how in ("dispatch", "periodic"):
        masks[job_id] = "<CHILD_JOB_ID>"
    masked = {}
    for name, value in environment.items():
        if OWN.match(name):
            continue
        for text, mask in masks.items():
            value = value.replace(text, mask)
        masked[name] = value
    return masked


def _differences(task: str, found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    problems = []
    for name in sorted(found.keys() | expected.keys()):
        have, want = found.get(name), expected.get(name)
        if have is not None and want is not None:
            if name in OF_THE_MACHINE and found.get("NOMAD_CPU_CORES", "").strip():
                continue
            pattern = re.sub(r"<PORT\\:\w+>", r"\\d+", re.escape(want))
            pattern = re.sub(r"<PORT:\w+>", r"\\d+", pattern)
            if re.fullmatch(pattern, have):
                continue
        problems.append(f"{task}: {name} is {have!r}, not {want!r}")
    return problems


def run_case(rig: ServerRig, path: Path) -> list[str]:
    return problems(rig, json.loads(path.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    passed = failed = 0
    os.environ.update(HOST_ENV)
    with tempfile.TemporaryDirectory() as data_dir, agent_of_the_recordings(Path(data_dir)) as rig:
        for path in sorted(options.directory.rglob("*.json")):
            found = run_case(rig, path)
            passed, failed = passed + (not found), failed + bool(found)
            for problem in found:
                print(f"{path.stem}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
