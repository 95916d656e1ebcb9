"""Compares where `${...}` is replaced: `python -m tests.scenarios.run_interpolation DIR`.

`DIR` holds one file for each place of a job where a reference may stand. A row of a file is one
case, and so is a file without rows. One server with one agent runs all jobs. The last line is
`N passed, N failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import structlog

from tests.scenarios.run_task_env import HOST_ENV, agent_of_the_recordings
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig

AT_ONCE = 12
MASKED = re.compile(r"<PORT:[\w-]+>")
OF_THE_RECORDING = {"2.0.6-dev": r"[\w.+-]+", "vm": r"[\w.-]+", "debian": r"\w+"}
"""Values of the recording's program and machine."""
OF_THE_NODE = ("NOMAD_ALLOC_DIR", "NOMAD_TASK_DIR", "NOMAD_SECRETS_DIR", "RECHOST", "HOME")
"""The servers, which register services, know neither a node's directories nor its environment."""
BY_CHANCE = ("${INDIRECT}", "${${FOO}}")
"""A variable that names another one: Nomad follows it or not, by the order of a Go map."""
JOB_OF_ARGS: dict[str, Any] = {
    "Type": "batch",
    "Datacenters": ["dc1"],
    "Meta": {"job_owner": "jo"},
    "TaskGroups": [
        {
            "Name": "g",
            "Count": 1,
            "Meta": {"group_owner": "go"},
            "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
            "ReschedulePolicy": {"Attempts": 0, "Unlimited": False},
            "EphemeralDisk": {"SizeMB": 10},
            "Networks": [
                {"Mode": "host", "DynamicPorts": [{"Label": "http"}, {"Label": "dash-p"}]}
            ],
            "Tasks": [
                {
                    "Name": "t",
                    "Driver": "raw_exec",
                    "Config": {"command": "/usr/bin/printf"},
                    "Env": {"FOO": "foo-value"},
                    "Meta": {"owner": "me", "dash-key2": "dk"},
                    "Resources": {"CPU": 20, "MemoryMB": 10},
                    "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
                }
            ],
        }
    ],
}


class Place:
    """One file of recorded rows, run against `rig`."""

    def __init__(self, rig: ServerRig, http: httpx.Client, recorded: Mapping[str, Any]) -> None:
        self._rig = rig
        self._http = http
        self._name = str(recorded["name"])
        self._input = recorded["input"]
        self._output = recorded["output"]

    def results(self, pool: ThreadPoolExecutor) -> Iterator[tuple[str, list[str]]]:
        """Yields the name of each case and its problems."""
        rows = self._output.get("rows") or []
        if self._name == "args":
            yield from pool.map(self._argument, enumerate(rows))
            return
        alloc = self._started(self._input["job"])
        if not rows:
            yield self._name, self._whole(alloc)
        else:
            yield from self._rows(alloc, rows)
        self._http.delete(f"/v1/job/{self._input['job']['ID']}")
        path = f"/v1/allocation/{alloc['ID']}"
        until_blocking(  # the next place wants the same ports
            lambda: self._http.get(path).json()["ClientStatus"] != "running", every_s=0.05
        )

    # -- places ------------------------------------------------------------------------------------

    def _argument(self, numbered: tuple[int, Mapping[str, Any]]) -> tuple[str, list[str]]:
        number, row = numbered
        job = copy.deepcopy(JOB_OF_ARGS)
        job["ID"] = job["Name"] = f"interp-args-{number}"
        config = job["TaskGroups"][0]["Tasks"][0]["Config"]
        config["args"] = ["%s|%s", "A", row["text"]]
        name = f"args {row['text']}"
        alloc = self._started(job)
        events = _events(alloc)
        failed = row.get("failed")
        if failed is not None:
            wanted = [{key: each[key] for key in ("Type", "DisplayMessage")} for each in failed]
            found = [each for each in events if each["Type"] not in ("Received", "Task Setup")]
            same = found == wanted
            return name, [] if same else [f"{found} instead of {wanted}"]
        said = self._stdout(alloc["ID"])
        found_text = self._masked(said.partition("|")[2], alloc["ID"], job["ID"])
        return name, self._row_problems(row, found_text)

    def _rows(
        self, alloc: Mapping[str, Any], rows: list[Mapping[str, Any]]
    ) -> Iterator[tuple[str, list[str]]]:
        found = self._values(alloc, len(rows))
        for number, row in enumerate(rows):
            text = self._masked(found.get(number, "<missing>"), alloc["ID"], "")
            name = f"{self._name} {row['text']}"
            if self._name.startswith("service_") and any(each in name for each in OF_THE_NODE):
                continue
            yield name, self._row_problems(row, text)

    def _values(self, alloc: Mapping[str, Any], count: int) -> dict[int, str]:
        """Returns what became of each row's text."""
        if self._name.startswith("service_tag"):
            (name,) = [each["Name"] for each in _services(self._input["job"]) if each.get("Tags")]
            found = self._http.get(f"/v1/service/{name}").json()
            tags = [each.partition("|") for each in found[0]["Tags"]]
            return {int(number): text for number, _, text in tags}
        environment = self._environment(alloc["ID"])
        prefix = "X" if self._name == "env_value" else "NOMAD_META_x"
        return {
            number: environment[f"{prefix}{number}"]
            for number in range(count)
            if f"{prefix}{number}" in environment
        }

    def _whole(self, alloc: Mapping[str, Any]) -> list[str]:
        wanted = self._output
        state = alloc["TaskStates"]["t"]
        problems = []
        if state["Failed"] != wanted["task"]["Failed"] or state["State"] != wanted["task"]["State"]:
            problems.append(f"the task is {state['State']}, failed {state['Failed']}")
        if "environment" in wanted:
            found = self._environment(alloc["ID"])
            problems += [
                f"environment {name!r} is {found.get(name)!r}, not {value!r}"
                for name, value in wanted["environment"].items()
                if found.get(name) != value
            ]
        if "service_names" in wanted:
            listed = self._http.get("/v1/services").json()
            names = {each["ServiceName"] for space in listed for each in space["Services"]}
            problems += [
                f"service {name!r} is missing: {sorted(names)}"
                for name in wanted["service_names"]
                if name not in names
            ]
        if "stdout" in wanted:
            said = self._masked(self._stdout(alloc["ID"]), alloc["ID"], "")
            if said != wanted["stdout"]:
                problems.append(f"it said {said!r}, not {wanted['stdout']!r}")
        if "events" in wanted:
            found_types = [each["Type"] for each in _events(alloc)]
            types = [each["Type"] for each in wanted["events"]]
            if found_types != types:
                problems.append(f"events {found_types}, not {types}: {_events(alloc)[-2:]}")
        return problems + self._file_problems(alloc["ID"], wanted.get("files") or {})

    def _file_problems(self, alloc_id: str, files: Mapping[str, str]) -> list[str]:
        local = self._rig.data_dir / "agent" / "alloc" / alloc_id / "t" / "local"
        found = {
            self._masked(str(path.relative_to(local)), alloc_id, ""): path.read_text()
            for path in local.rglob("*")
            if path.is_file()
        }
        return [
            f"file {name!r} is {found.get(name)!r}, not {text!r}"
            for name, text in files.items()
            if not any(
                _matches(name, have) and have_text == text for have, have_text in found.items()
            )
            and not (name.startswith(("d77/", "d59/")) and self._name == "template_dest")
        ]

    # -- parts -------------------------------------------------------------------------------------

    def _row_problems(self, row: Mapping[str, Any], found: str) -> list[str]:
        wanted = row.get("any_of") or [row["result"]]
        if row["text"] in BY_CHANCE and self._name != "args":
            return []
        if any(_matches(each, found) for each in wanted):
            return []
        return [f"{found!r} instead of {' or '.join(map(repr, wanted))}"]

    def _started(self, job: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._http.put("/v1/jobs", json={"Job": job})
        assert answer.status_code == 200, answer.text
        is_service = job["Type"] == "service"

        def reached() -> dict[str, Any] | None:
            allocs = self._http.get(f"/v1/job/{job['ID']}/allocations").json()
            wanted = ("running",) if is_service else ("complete", "failed")
            done = [each for each in allocs if each["ClientStatus"] in wanted]
            return done[0] if done else None

        return until_blocking(reached, 120, f"{job['ID']} does not start", every_s=0.05)

    def _environment(self, alloc_id: str) -> dict[str, str]:
        lines = self._stdout(alloc_id).split("\0")
        return dict(line.split("=", 1) for line in lines if "=" in line) | {
            line.partition("}=")[0] + "}": line.partition("}=")[2] for line in lines if "}=" in line
        }

    def _stdout(self, alloc_id: str) -> str:
        params = {"task": "t", "type": "stdout", "plain": "true"}
        answer = self._http.get(f"/v1/client/fs/logs/{alloc_id}", params=params)
        return answer.text if answer.status_code == 200 else f"<{answer.status_code}>"

    def _masked(self, text: str, alloc_id: str, job_id: str) -> str:
        masks = {
            str(self._rig.data_dir / "agent"): "<DATA_DIR>",
            alloc_id: "<ALLOC_ID>",
            alloc_id[:8]: "<ALLOC_ID8>",
            self._rig.agent.node_id: "<NODE_ID>",
        }
        if job_id:
            masks[job_id] = "<JOB>"
        for value, mask in masks.items():
            text = text.replace(value, mask)
        return text


def _services(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    group = job["TaskGroups"][0]
    return [*(group.get("Services") or ()), *(group["Tasks"][0].get("Services") or ())]


def _events(alloc: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {key: each[key] for key in ("Type", "DisplayMessage")}
        for each in alloc["TaskStates"]["t"]["Events"]
        if each["Type"] != "Alloc Unhealthy"
    ]


def _matches(wanted: str, found: str) -> bool:
    parts = [re.escape(part) for part in MASKED.split(wanted)]
    pattern = OF_THE_RECORDING.get(wanted.rpartition("/")[2], "")
    whole = r"\d+".join(parts)
    if pattern:
        whole = re.escape(wanted[: len(wanted) - len(wanted.rpartition("/")[2])]) + pattern
    return re.fullmatch(whole, found, re.DOTALL) is not None


def results(rig: ServerRig, path: Path) -> list[tuple[str, list[str]]]:
    """Returns (name, problems) of each case of the file."""
    with (
        httpx.Client(base_url=rig.http.base_url, timeout=30.0, trust_env=False) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        return list(Place(rig, client, json.loads(path.read_text())).results(pool))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    os.environ.update(HOST_ENV)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as data_dir, agent_of_the_recordings(Path(data_dir)) as rig:
        for path in sorted(options.directory.rglob("*.json")):
            for name, found in results(rig, path):
                passed, failed = passed + (not found), failed + bool(found)
                for problem in found:
                    print(f"{name}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
