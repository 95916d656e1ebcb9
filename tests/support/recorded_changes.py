"""Recorded cases of templates that change while their task runs: their steps, and what came of
them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.pacing import pause_blocking
from tests.support.polling import until_blocking
from tests.support.recorded_templates import APART
from tests.support.template_fixture import TemplateRig, one_task_job, task_of

_AT_ONCE = 24
_SETTLED_S = 12.0
"""The default wait, the longest splay, and a restart."""
_IN_GO = re.compile(r"(?<=template: ):\d+:\d+|(?<=on change: ).*(?=\. Exit code)")
_DURATION = re.compile(r"(?<=restarting in )[\d.]+(ns|us|µs|ms|s|m)+")


class ChangeCase:
    """One case on the rig. `paths` are what its placeholders stand for."""

    def __init__(self, rig: TemplateRig, number: int, case: Mapping[str, Any]) -> None:
        self._rig = rig
        self._http = rig.rig.http
        self._case = case
        self._job_id = f"change-{number}"
        self._service_job = f"service-{number}"
        directory = f"change/c{number}"
        self.paths = {
            "P": f"{directory}/p",
            "Q": f"{directory}/o",
            "LATER": f"change/later{number}",
            "DIR": directory,
            "SVC": f"service-{number}",
        }

    def run(self) -> list[str]:
        """Returns what differs from the recording."""
        given = self._case["input"]
        for name, items in given["variables_before"].items():
            self._rig.put_variable(self.paths[name], items)
        if given.get("service_before"):
            self._serve(given["service_before"])
        answer = self._http.put("/v1/jobs", json={"Job": self._job()})
        if answer.status_code != 200:
            return self._compare({"outcome": "refused", "error": answer.text})
        until_blocking(self._begun, problem="the task neither runs nor waits")
        for name, *rest in given["steps"]:
            self._step(name, rest)
        pause_blocking(_SETTLED_S, "the task never settles")
        found = self._output()
        self._http.delete(f"/v1/job/{self._job_id}?purge=true")
        self._http.delete(f"/v1/job/{self._service_job}?purge=true")
        return self._compare(found)

    def _job(self) -> dict[str, Any]:
        given = self._case["input"]
        templates = [
            {**template, "EmbeddedTmpl": self._filled(template["EmbeddedTmpl"])}
            for template in given["templates"]
        ]
        tasks = [{**given["task"], "Templates": templates}, *(given.get("extra_tasks") or ())]
        group = {"Tasks": tasks, "RestartPolicy": given["restart_policy"]}
        job_type = given["job_type"]
        return one_task_job(self._job_id, {}, Type=job_type, TaskGroup=group)

    def _filled(self, text: str) -> str:
        for name, path in self.paths.items():
            text = text.replace(f'"{name}"', json.dumps(path))
        return text

    def _begun(self) -> bool:
        """Whether the main task runs and its script has begun, or waits for something."""
        alloc = self._alloc()
        state = (alloc.get("TaskStates") or {}).get("t") or {}
        events = state.get("Events") or [{"Type": ""}]
        log = self._root(alloc) / "alloc/data/log" if alloc else None
        started = state.get("State") == "running" and log is not None and log.exists()
        return started or events[-1]["Type"] == "Template" or state.get("State") == "dead"

    def _alloc(self) -> dict[str, Any]:
        allocs = self._http.get(f"/v1/job/{self._job_id}/allocations").json()
        return dict(allocs[0]) if allocs else {}

    def _root(self, alloc: Mapping[str, Any]) -> Any:
        return self._rig.agent_dir / "alloc" / alloc["ID"]

    def _step(self, name: str, rest: list[Any]) -> None:
        match name, rest:
            case "put", [which, value]:
                self._rig.put_variable(self._path(which), {"v": value})
            case "putraw", [which, items]:
                self._rig.put_variable(self._path(which), items)
            case "del", [which]:
                self._http.delete(f"/v1/var/{self._path(which)}").raise_for_status()
            case "svc", [address, *tags]:
                self._serve(address, *tags)
            case "svcstop", []:
                self._http.delete(f"/v1/job/{self._service_job}?purge=true")
            case "sleep", [seconds]:
                pause_blocking(float(seconds), "a step of the recording")
            case "settle", []:
                pause_blocking(_SETTLED_S, "the task never settles")
            case "restart", _:
                alloc_id = self._alloc()["ID"]
                self._http.put(f"/v1/client/allocation/{alloc_id}/restart", json={})
            case _:
                raise ValueError(f"unknown step {name} {rest}")

    def _path(self, which: str) -> str:
        name, _, below = which.partition("/")
        return f"{self.paths[name]}/q-{below}" if below else self.paths[name]

    def _serve(self, address: str, *tags: str) -> None:
        service = {
            "Name": self.paths["SVC"],
            "Provider": "nomad",
            "Address": address,
            "Tags": tags or ["t1"],
        }
        sleeper = {"command": "/bin/sleep", "args": ["100000"]}
        task = task_of(Name="s", Config=sleeper)
        group = {"Services": [service]}
        job = one_task_job(self._service_job, task, Type="service", TaskGroup=group)
        self._rig.rig.register(job)
        self._rig.rig.wait_for(
            f"/v1/service/{self.paths['SVC']}",
            lambda found: [each["Address"] for each in found] == [address],
        )

    def _output(self) -> dict[str, Any]:
        alloc = self._alloc()
        root = self._root(alloc)
        data = root / "alloc/data"
        states = {}
        for name, state in alloc["TaskStates"].items():
            events = [
                {
                    "Type": each["Type"],
                    "DisplayMessage": self._masked(each["DisplayMessage"], alloc),
                }
                for each in state["Events"]
                if each["Type"] not in APART
            ]
            states[name] = {
                **{key: state[key] for key in ("State", "Failed", "Restarts")},
                "Events": events,
            }
        found: dict[str, Any] = {
            "client_status": alloc["ClientStatus"],
            "task_states": states,
            "files": {
                path.name: self._masked(path.read_text(), alloc)
                for path in (root / "t/local").iterdir()
            },
        }
        for key, name in (("task_log", "log"), ("cwd", "cwd"), ("scriptenv", "scriptenv")):
            if (data / name).exists():
                lines = (data / name).read_text().splitlines()
                found[key] = [self._masked(line, alloc) for line in lines]
        return found

    def _masked(self, text: str, alloc: Mapping[str, Any]) -> str:
        masks = {
            str(self._rig.agent_dir): "<DATA_DIR>",
            alloc["ID"]: "<ALLOC_ID>",
            alloc["ID"][:8]: "<ALLOC_ID8>",
            **{path: f"<{name}>" for name, path in self.paths.items()},
        }
        for value, mask in masks.items():
            text = text.replace(value, mask)
        return _DURATION.sub("<DUR>", text.replace(self._job_id, "<JOB>"))

    def _compare(self, found: Mapping[str, Any]) -> list[str]:
        case = self._case
        outputs = [case["output"]] if "output" in case else case["output_any_of"]
        compare = _weak_differences if case.get("compare") == "weak" else _differences
        return min((compare(found, wanted) for wanted in outputs), key=len)


def run_change_cases(
    rig: TemplateRig, cases: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, list[str]]]:
    """Runs the cases, many at the same time. Yields (name, problems) of each."""
    runs = [ChangeCase(rig, number, case) for number, case in enumerate(cases.values(), 100)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from zip(cases, pool.map(_run, runs), strict=True)


def _run(case: ChangeCase) -> list[str]:
    try:
        return case.run()
    except AssertionError as error:
        return [str(error)]


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    if "outcome" in found and "outcome" not in wanted:
        return [f"the job was refused: {found['error'].strip()}"]
    if "outcome" in wanted:
        same = found.get("outcome") == wanted["outcome"] and (
            found["error"].strip() == wanted["error"].strip()
        )
        return [] if same else [f"{found}, not {wanted}"]
    problems = []
    for key in ("client_status", "task_log", "files", "cwd", "scriptenv"):
        have, want = found.get(key), wanted.get(key)
        if key == "scriptenv" and have:
            have = [line for line in have if not line.startswith("ORCHGIT_")]
        if have != want:
            problems.append(f"{key} is {have}, not {want}")
    for name, want in wanted["task_states"].items():
        have_state = found.get("task_states", {}).get(name, {})
        problems += [
            f"{name}: {key} is {have_state.get(key)}, not {want[key]}"
            for key in ("State", "Failed", "Restarts")
            if have_state.get(key) != want[key]
        ]
        have_events = [_shown(each) for each in have_state.get("Events", ())]
        want_events = [_shown(each) for each in want["Events"]]
        if have_events != want_events:
            problems.append(f"{name}: events are {have_events}, not {want_events}")
    return problems


def _weak_differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    if "outcome" in wanted or "outcome" in found:
        return _differences(found, wanted)
    problems = []
    if found.get("files") != wanted["files"]:
        problems.append(f"files are {found.get('files')}, not {wanted['files']}")
    for name, want in wanted["task_states"].items():
        events = found.get("task_states", {}).get(name, {}).get("Events", ())
        have_types = {each["Type"] for each in events}
        want_types = {each["Type"] for each in want["Events"]}
        if have_types != want_types:
            problems.append(f"{name}: events are of {have_types}, not {want_types}")
    return problems


def _shown(event: Mapping[str, Any]) -> str:
    """The event without what only Go says: its error of a missing program, and columns, which
    depend on the length of the paths."""
    text = _IN_GO.sub("", event["DisplayMessage"])
    return f"{event['Type']}: {text}"
