"""Runs recorded artifact downloads: `python -m tests.scenarios.run_artifacts DIR`.

`DIR` holds one file for each case. A server and an agent are started, and the recorded file server
(`artifact-server.py`, taken from `DIR`'s parent or from tests/golden/agent). Cases that end
differently here on purpose are counted apart, each with the rule of docs/from-nomad.md that it
falls under. The last line is `N passed, N failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.server
import importlib.util
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.scenarios.run_task_env import HOST_ENV, agent_of_the_recordings
from tests.support.server_rig import ServerRig

GOLDEN = Path(__file__).parents[1] / "golden" / "agent"
SERVER = "artifact-server.py"
RECORDED_ADDRESS = "127.0.0.1:15405"
DONE = ("complete", "failed")
Case = Mapping[str, Any]
Files = dict[str, dict[str, Any]]


# -- what is different on purpose ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """A rule of docs/from-nomad.md by which a case ends otherwise here than it was recorded."""

    name: str
    applies: Callable[[Case, Case], bool]
    """Takes the recorded case and what was found: (outcome, files)."""


def _sources(case: Case) -> str:
    return " ".join(each["GetterSource"] for each in case["input"]["artifacts"])


def _options(case: Case) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in case["input"]["artifacts"]:
        found |= each.get("GetterOptions") or {}
    return found


def _no_files_of_a_failure(case: Case, found: Case) -> bool:
    failed = case["output"]["outcome"] == found["outcome"] == "failed"
    return failed and bool(case["output"]["files"]) and not found["files"]


def _nothing_is_no_success(case: Case, found: Case) -> bool:
    recorded = case["output"]
    ended_well = recorded["outcome"] == "complete" and found["outcome"] == "failed"
    plain = {path: each for path, each in recorded["files"].items() if each.get("kind") != "dir"}
    return ended_well and not plain


def _links_are_made(case: Case, found: Case) -> bool:
    """Every file that differs was recorded empty, and is a link or a copy here."""
    recorded = case["output"]["files"]
    other = {path for path in recorded if recorded[path] != found["files"].get(path)}
    both = found["outcome"] == "complete" and recorded.keys() == found["files"].keys()
    return both and bool(other) and all(recorded[path].get("size") == 0 for path in other)


def _links_that_lead_out(case: Case, found: Case) -> bool:
    empty = [each for each in case["output"]["files"].values() if each.get("size") == 0]
    return found["outcome"] == "failed" and bool(empty) and "link" in found["why"]


def _readable_mode(case: Case, found: Case) -> bool:
    recorded = case["output"]["files"]
    other = {path for path in recorded if recorded[path] != found["files"].get(path)}
    return bool(other) and all(
        {**recorded[path], "mode": "0o644"} == found["files"].get(path)
        and recorded[path]["mode"] == "0o622"
        for path in other
    )


def _git_into_local(case: Case, found: Case) -> bool:
    recorded = case["output"]["events"]
    dubious = any("dubious ownership" in each["DisplayMessage"] for each in recorded)
    return dubious and found["outcome"] in DONE


def _option_without_effect(case: Case, found: Case) -> bool:
    asked = {**_options(case), **dict(re.findall(r"[?&](\w+)=([^&\s]*)", _sources(case)))}
    odd_depth = "depth" in asked and not asked["depth"].isdigit()
    known = r"\.?(tar|tar\.(gz|bz2|xz|zst)|tgz|tbz2|txz|tzst|zip|gz|bz2|xz|zst|0|f|false)"
    odd_archive = "archive" in asked and not re.fullmatch(known, asked["archive"].lower())
    refused = found["outcome"] == "failed" and case["output"]["outcome"] == "complete"
    return refused and (odd_depth or odd_archive or "filename" in asked)


DIFFERENCES = (
    Difference("git into the task's own directory works", _git_into_local),
    Difference("a failed download leaves no files", _no_files_of_a_failure),
    Difference("a download of nothing is an error", _nothing_is_no_success),
    Difference("links of archives are made", _links_are_made),
    Difference("a link that leads out of the archive is an error", _links_that_lead_out),
    Difference("a single decompressed file has mode 0644", _readable_mode),
    Difference("an option without effect is an error", _option_without_effect),
)


# -- the recorded file server ----------------------------------------------------------------------


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("artifact_server_of_the_recordings", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def recorded_server(script: Path, root: Path) -> Iterator[str]:
    """Serves the recorded files, made below `root`; yields the server's address."""
    module: Any = _module(script)
    module.ROOT = str(root / "www")
    module.build()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), module.H)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# -- one case --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """The agent that runs the cases, and the server that their artifacts come from."""

    rig: ServerRig
    address: str
    www_dir: str

    def here(self, text: str) -> str:
        """Replaces what the recording has for places by the places of this run."""
        return text.replace(RECORDED_ADDRESS, self.address).replace("<WWW_DIR>", self.www_dir)


@dataclass(frozen=True, slots=True)
class Result:
    problems: list[str]
    difference: str = ""
    """The rule by which the case is different on purpose."""


def run_case(place: Place, case: Case) -> Result:
    """Runs the case and compares outcome, files, and the types of the events."""
    recorded = case["output"]
    recorded = {**recorded, "files": _wanted_files(place, recorded.get("files") or {})}
    case = {**case, "output": recorded}
    job = _job(case, place)
    registered = place.rig.http.put("/v1/jobs", json={"Job": job})
    if recorded["outcome"] == "refused":
        if registered.status_code == 200:
            place.rig.http.delete(f"/v1/job/{job['ID']}?purge=true")
            return Result(["the job was accepted"])
        wanted = place.here(recorded["error"])
        same = wanted in registered.text
        return Result([] if same else [f"refused with {registered.text}, not {wanted}"])
    if registered.status_code != 200:
        return Result([f"the job was refused: {registered.text}"])
    path = f"/v1/job/{job['ID']}/allocations"
    alloc = place.rig.wait_for(
        path, lambda found: [each for each in found if each["ClientStatus"] in DONE]
    )[0]
    events = alloc["TaskStates"]["t"]["Events"]
    found = {
        "outcome": alloc["ClientStatus"],
        "files": _files(place.rig.data_dir / "agent" / "alloc" / alloc["ID"]),
        "why": " ".join(each["DisplayMessage"] for each in events),
    }
    place.rig.http.delete(f"/v1/job/{job['ID']}?purge=true")
    problems = _differences(case, found, events)
    for rule in DIFFERENCES if problems else ():
        if rule.applies(case, found):
            return Result([], rule.name)
    return Result(problems)


def _job(case: Case, place: Place) -> dict[str, Any]:
    given = json.loads(place.here(json.dumps(case["input"])))
    task = {
        "Name": "t",
        "Driver": given.get("driver") or "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", "exit 0"]},
        "User": given.get("user", ""),
        "Env": given.get("env") or {},
        "Meta": given.get("meta") or {},
        "Artifacts": given["artifacts"],
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
    }
    group = {
        "Name": "g",
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Unlimited": False},
        "Tasks": [task],
    }
    name = f"artifact-{case['name']}"
    return {"ID": name, "Name": name, "Type": "batch", "TaskGroups": [group]}


def _differences(case: Case, found: Case, events: list[dict[str, Any]]) -> list[str]:
    recorded = case["output"]
    problems = []
    if found["outcome"] != recorded["outcome"]:
        problems.append(f"it is {found['outcome']}, not {recorded['outcome']}: {found['why']}")
    wanted: Files = recorded["files"]
    for path in sorted(wanted.keys() | found["files"].keys()):
        have, want = found["files"].get(path), wanted.get(path)
        if have != want:
            problems.append(f"{path} is {have}, not {want}")
    types = [each["Type"] for each in events]
    wanted_types = [each["Type"] for each in recorded["events"]]
    if recorded["outcome"] == "failed" and types != wanted_types:
        problems.append(f"the events are {types}, not {wanted_types}")
    return problems


def _wanted_files(place: Place, files: dict[str, Any]) -> Files:
    if "count" in files:
        return {"count": {"count": files["count"]}}
    wanted: Files = {}
    for path, each in files.items():
        if path == "alloc/container/":  # the exec driver's own, in Nomad
            continue
        one = {key: value for key, value in each.items() if key in ("kind", "mode", "uid")}
        if "note" in each:
            one = {"kind": "dir", "git": True}
        if "text" in each:
            one["text"] = place.here(each["text"])
            one["size"] = len(one["text"].encode())
        elif "sha256" in each:
            one |= {"size": each["size"], "sha256": each["sha256"]}
        if "base64" in each:
            one |= {"text": base64.b64decode(each["base64"]).decode("utf-8", "replace")}
            one.pop("sha256", None)
        wanted[path] = one
    return wanted


OWN_OF_ALLOC = {"alloc/", *(f"alloc/{name}/" for name in ("data", "logs", "tmp"))}
OWN_OF_TASK = {"t/", *(f"t/{name}/" for name in ("local", "secrets", "tmp", "private"))}
OWN_OF_ROOT = re.compile(r"t/(alloc|bin|dev|etc|lib\d*|proc|run|sbin|sys|usr|var|executor\.out)/?$")


def _files(root: Path) -> Files:
    """What lies in the allocation's directory beside what is always there."""
    found: Files = {}
    pending = [root]
    while pending:
        directory = pending.pop()
        for path in directory.iterdir():
            name = str(path.relative_to(root))
            is_dir = path.is_dir() and not path.is_symlink()
            if is_dir:
                name += "/"
            if name.startswith("alloc/logs/") and name != "alloc/logs/":
                continue
            if path.is_socket():  # the task API's
                continue
            if is_dir and path.name == ".git":
                found[name] = {"kind": "dir", "git": True}
                continue
            if is_dir:
                pending.append(path)
            if name not in OWN_OF_ALLOC | OWN_OF_TASK and not OWN_OF_ROOT.match(name):
                found[name] = _described(path)
    if len(found) > 1000:
        return {"count": {"count": len(found)}}
    return found


def _described(path: Path) -> dict[str, Any]:
    about = path.lstat()
    kind = "link" if path.is_symlink() else "dir" if path.is_dir() else "file"
    one: dict[str, Any] = {"kind": kind, "mode": f"0o{about.st_mode & 0o7777:o}"}
    one["uid"] = about.st_uid
    if kind == "file":
        data = path.read_bytes()
        text = data.decode("utf-8", "replace")
        text = text.replace("User-Agent: orchgit", "User-Agent: Go-http-client/1.1")
        one |= {"text": text, "size": len(text.encode()) if "User-Agent" in text else len(data)}
    return one


@contextmanager
def place_of_the_recordings(root: Path, script: Path) -> Iterator[Place]:
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(recorded_server(script, root))
        rig = stack.enter_context(agent_of_the_recordings(root / "data"))
        yield Place(rig, address, str(root / "www"))


def server_script(directory: Path) -> Path:
    beside = directory.parent / SERVER
    return beside if beside.exists() else GOLDEN / SERVER


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="", help="run the cases whose names match this pattern")
    options = parser.parse_args()
    passed = failed = 0
    apart: dict[str, list[str]] = {}
    os.environ.update(HOST_ENV)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        with place_of_the_recordings(Path(name), server_script(options.directory)) as place:
            for path in sorted(options.directory.rglob("*.json")):
                case = json.loads(path.read_text())
                if not re.search(options.only, path.stem) or "artifacts" not in case["input"]:
                    continue
                result = run_case(place, case)
                if result.difference:
                    apart.setdefault(result.difference, []).append(path.stem)
                    continue
                passed, failed = passed + (not result.problems), failed + bool(result.problems)
                for problem in result.problems:
                    print(f"{path.stem}: {problem}")
    for rule, names in apart.items():
        print(f"different on purpose ({rule}): {', '.join(names)}")
    print(f"{sum(map(len, apart.values()))} different on purpose (docs/from-nomad.md)")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
