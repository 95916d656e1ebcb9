"""Compares what becomes of recorded jobs: `python -m tests.scenarios.run_task_events DIR`.

`DIR` holds one file for each case: a job, steps, and the answers, allocations, tasks, events and
deployments that followed. One server with one agent runs all jobs, several at a time. The last line
is `N passed, N failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import http.server
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import structlog

from tests.scenarios.run_task_env import HOST_ENV, agent_of_the_recordings
from tests.support.pacing import pause_blocking
from tests.support.polling import until_blocking
from tests.support.process_state import environment
from tests.support.server_rig import ServerRig

AT_ONCE = 12
SETTLED_S = 25.0
"""How long a case may take after its steps to be as recorded."""
ARTIFACT_PORT = 15405
UNHEALTHY = "Alloc Unhealthy"
MASKED = re.compile(r"<(?:DUR|DUR_NS|JWT|RANDOM|UUID_\d+|PORT:\w+)>")
WEAK = frozenset(("batch_delay_mode", "leader_job_stop_order", "prestart_sidecar"))
"""Not the same in every round of the recordings: only the last states are compared."""
OWN_WAYS = {
    "alloc_signal_bad_name": "a signal that is not known is refused; Nomad sends SIGINT",
    "alloc_signal_bad_name_which": "a signal that is not known is refused; Nomad sends SIGINT",
    "alloc_signal_lower_case": "sighup is SIGHUP; Nomad sends SIGINT",
    "alloc_signal_no_sig_prefix": "HUP is SIGHUP; Nomad sends SIGINT",
}
"""Where orchgit differs on purpose (docs/from-nomad.md): not run."""
OF_THE_GETTER = "getter subprocess failed: exit status 1: failed to download artifact: "
"""Says of a failed download only that Nomad downloads in another process."""
TEMPLATE_ERROR = re.compile(r"^Template failed: ")
ALLOC_FIELDS = {
    "desired_status": "DesiredStatus",
    "desired_description": "DesiredDescription",
    "client_status": "ClientStatus",
    "client_description": "ClientDescription",
}


class Case:
    """One recorded case, run against `rig`."""

    def __init__(self, rig: ServerRig, http: httpx.Client, case: Mapping[str, Any]) -> None:
        self._rig = rig
        self._http = http
        self._name = str(case["name"])
        self._given = case["input"]
        self._wanted = case["output"]
        self._job = self._given["job"]
        self._answers: list[Any] = []

    def problems(self) -> list[str]:
        registered = self._http.put("/v1/jobs", json={"Job": self._job})
        if self._wanted["outcome"] == "refused":
            text = registered.text.strip()
            same = registered.status_code != 200 and text == self._wanted["error"].strip()
            return [] if same else [f"registration answered {registered.status_code}: {text!r}"]
        if registered.status_code != 200:
            return [f"the job was refused: {registered.text}"]
        try:
            for step in self._given.get("steps") or ():
                self._do(step)
        except AssertionError as error:
            return [f"a step: {error}", *self._differences()]
        found: list[str] = ["not compared"]
        with suppress(AssertionError):
            until_blocking(lambda: not (found := self._differences()), SETTLED_S, every_s=0.1)
        found = self._differences()
        self._http.delete(f"/v1/job/{self._job['ID']}", params={"purge": "true"})
        return found

    # -- steps -------------------------------------------------------------------------------------

    def _do(self, step: list[Any]) -> None:
        kind, *rest = step
        if kind == "sleep":
            pause_blocking(rest[0], "a recorded pause between two steps")
        elif kind == "wait":
            until_blocking(
                lambda: any(each["ClientStatus"] == rest[0] for each in self._allocs()),
                20,
                f"no allocation is {rest[0]}",
                every_s=0.05,
            )
        else:
            self._answers.append([step, self._answer(kind, rest)])

    def _answer(self, kind: str, rest: list[Any]) -> Any:
        job_id = self._job["ID"]
        if kind == "cli":
            return self._command_line(rest)
        if kind in ("restart", "signal"):
            path = f"/v1/client/allocation/{self._first()['ID']}/{kind}"
            answer = self._http.put(path, json=rest[0])
            if answer.status_code == 200:
                return answer.json()
            return {"error": answer.text.strip(), "code": answer.status_code}
        if kind.startswith("stop_alloc"):
            path = f"/v1/allocation/{self._first()['ID']}/stop"
            delay = "true" if kind.endswith("nodelay") else "false"
            answer = self._http.put(path, params={"no_shutdown_delay": delay})
        elif kind == "update":
            answer = self._http.put("/v1/jobs", json={"Job": self._given["job_after"]})
        elif kind in ("stop_job", "stop_job_nodelay", "purge"):
            params = {"no_shutdown_delay": "true"} if kind.endswith("nodelay") else {}
            params |= {"purge": "true"} if kind == "purge" else {}
            answer = self._http.delete(f"/v1/job/{job_id}", params=params)
        else:
            raise AssertionError(f"unknown step {kind}")
        return "ok" if answer.status_code == 200 else f"{answer.status_code} {answer.text}"

    def _command_line(self, arguments: list[str]) -> dict[str, Any]:
        names = {"ALLOC": self._first()["ID"], "JOB": self._job["ID"]}
        done = subprocess.run(
            [sys.executable, "-m", "orchgit", *(names.get(each, each) for each in arguments)],
            env={**os.environ, "ORCHGIT_ADDR": str(self._http.base_url)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        shown = {"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        return {name: self._masked(value) for name, value in shown.items()}

    def _first(self) -> dict[str, Any]:
        return self._allocs()[0]

    # -- what became of it -------------------------------------------------------------------------

    def _allocs(self) -> list[dict[str, Any]]:
        """Returns the allocations of the job, in order of creation."""
        if self._http.get(f"/v1/job/{self._job['ID']}").status_code == 404:
            return []
        allocs = self._http.get(f"/v1/job/{self._job['ID']}/allocations").json()
        return sorted(allocs, key=lambda each: (each["CreateIndex"], each["Name"]))

    def _masked(self, value: Any) -> Any:
        text = json.dumps(value)
        text = text.replace(str(self._rig.data_dir / "agent"), "<DATA_DIR>")
        for number, alloc in enumerate(self._allocs(), 1):
            text = text.replace(alloc["ID"], f"<ALLOC_{number}>")
            text = text.replace(alloc["ID"][:8], f"<ALLOC8_{number}>")
        return json.loads(text)

    def _differences(self) -> list[str]:
        wanted = self._wanted
        recorded = wanted.get("answers") or []
        problems = list(_compared("answers", self._answers, _in_own_words(self._answers, recorded)))
        if wanted["outcome"] == "not placed":
            return [*problems, *self._unplaced()]
        recorded = list(wanted["allocs"])
        allocs = [self._alloc(each) for each in self._allocs()]
        for have, want in zip(allocs, recorded, strict=False):
            if "deployment_healthy" not in want:  # recorded of the cases of deployments alone
                have.pop("deployment_healthy", None)
        if self._name in WEAK:
            allocs, recorded = [_weak(each) for each in allocs], [_weak(each) for each in recorded]
        problems += _compared("allocs", self._masked(allocs), recorded)
        if "deployments" in wanted:
            found = self._http.get(f"/v1/job/{self._job['ID']}/deployments").json()
            states = [{key: each[key] for key in ("Status", "StatusDescription")} for each in found]
            problems += _compared("deployments", states, wanted["deployments"])
        return problems

    def _unplaced(self) -> list[str]:
        found = self._http.get(f"/v1/job/{self._job['ID']}/evaluations").json()
        failed = [each["FailedTGAllocs"] for each in found if each.get("FailedTGAllocs")]
        recorded = [each["FailedTGAllocs"] for each in self._wanted["evals"]]
        if not failed:
            return ["no evaluation says why nothing was placed"]
        return [
            problem
            for group, metric in recorded[0].items()
            for name, value in metric.items()
            for problem in _compared(f"{group}.{name}", failed[0][group][name], value)
        ]

    def _alloc(self, alloc: Mapping[str, Any]) -> dict[str, Any]:
        full = self._http.get(f"/v1/allocation/{alloc['ID']}").json()
        made = {name: full.get(field) or "" for name, field in ALLOC_FIELDS.items()}
        made["version"] = full["Job"]["Version"]
        made["name"] = full["Name"].replace(self._job["ID"], "<JOB>", 1)
        status = full.get("DeploymentStatus")
        if full.get("DeploymentID") and status and status["Healthy"] is not None:
            made["deployment_healthy"] = status["Healthy"]
        tasks = full.get("TaskStates") or {}
        made["tasks"] = {name: _task(state) for name, state in tasks.items()}
        return made


def _in_own_words(answers: list[Any], recorded: list[Any]) -> list[Any]:
    """Returns the recorded answers; where the command line refuses, it says so in its own words."""
    adapted = []
    for have, want in zip(answers, recorded, strict=False):
        refused = want[0][0] == "cli" and have[1]["stderr"].startswith("Error: ")
        said = {**want[1], "stderr": have[1]["stderr"]} if refused else want[1]
        adapted.append([want[0], said])
    return [*adapted, *recorded[len(answers) :]]


def _task(state: Mapping[str, Any]) -> dict[str, Any]:
    never = "0001-01-01T00:00:00Z"
    events = [
        {key: each[key] or {} for key in ("Type", "DisplayMessage", "Details")}
        for each in state["Events"]
    ]
    made: dict[str, Any] = {name: state[name] for name in ("State", "Failed", "Restarts")}
    made["Started"] = state["StartedAt"] not in (None, never)
    made["Finished"] = state["FinishedAt"] not in (None, never)
    made["Events"] = [each for each in events if each["Type"] != UNHEALTHY]
    for each in events:
        if each["Type"] == UNHEALTHY:
            made["AllocUnhealthyEvent"] = each["DisplayMessage"]
    return made


def _weak(alloc: Mapping[str, Any]) -> dict[str, Any]:
    tasks = {
        name: {"State": task["State"], "Failed": task["Failed"], "Last": task["Events"][-1:]}
        for name, task in alloc["tasks"].items()
    }
    return {**alloc, "tasks": tasks}


def _compared(where: str, found: Any, wanted: Any) -> Iterator[str]:
    """Yields the differences; masks of the recording stand for any text."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in sorted(wanted.keys() | found.keys()):
            if name in wanted and name in found:
                yield from _compared(f"{where}.{name}", found[name], wanted[name])
            elif name in wanted:
                yield f"{where}.{name} is missing, not {wanted[name]!r}"
            else:
                yield f"{where}.{name} is {found[name]!r}, not recorded"
    elif isinstance(wanted, list) and isinstance(found, list):
        if where.endswith(".Events"):
            types = [[each["Type"] for each in events] for events in (found, wanted)]
            if types[0] != types[1]:
                yield f"{where} are {types[0]}, not {types[1]}"
                return
        if len(found) != len(wanted):
            yield f"{where} has {len(found)} entries, not {len(wanted)}: {found!r}"[:500]
        for number, (have, want) in enumerate(zip(found, wanted, strict=False)):
            yield from _compared(f"{where}[{number}]", have, want)
    elif isinstance(wanted, str) and isinstance(found, str):
        wanted = wanted.replace(OF_THE_GETTER, "")
        pattern = ".*".join(re.escape(part) for part in MASKED.split(wanted))
        is_minor = TEMPLATE_ERROR.match(wanted) and TEMPLATE_ERROR.match(found)
        if not is_minor and not re.fullmatch(pattern, found, re.DOTALL):
            yield f"{where} is {found!r}, not {wanted!r}"
    elif found != wanted:
        yield f"{where} is {found!r}, not {wanted!r}"


class _NothingThere(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the runner prints its own lines."""


@contextmanager
def artifacts_missing() -> Iterator[None]:
    """Answers 404 where the recorded jobs look for artifacts, unless another server does."""
    with suppress(OSError):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", ARTIFACT_PORT), _NothingThere)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
        return
    yield


@contextmanager
def rig_of_the_recordings(data_dir: Path) -> Iterator[ServerRig]:
    with (
        environment(HOST_ENV),
        agent_of_the_recordings(data_dir) as rig,
        artifacts_missing(),
    ):
        yield rig


def run_case(rig: ServerRig, path: Path) -> list[str]:
    with httpx.Client(base_url=rig.http.base_url, timeout=30.0, trust_env=False) as client:
        return Case(rig, client, json.loads(path.read_text())).problems()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="", help="a pattern of the cases to run")
    options = parser.parse_args()
    paths = sorted(
        each
        for each in options.directory.rglob("*.json")
        if re.search(options.only, each.stem) and each.stem not in OWN_WAYS
    )
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    passed = failed = 0
    began_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as data_dir,
        rig_of_the_recordings(Path(data_dir)) as rig,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        for path, found in zip(
            paths, pool.map(lambda each: run_case(rig, each), paths), strict=True
        ):
            passed, failed = passed + (not found), failed + bool(found)
            for problem in found:
                print(f"{path.stem}: {problem}")
    print(f"in {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
