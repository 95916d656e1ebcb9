"""Recorded template cases: the job of each, what became of it, and how that differs."""

from __future__ import annotations

import hashlib
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.pacing import pause_blocking
from tests.support.template_fixture import TemplateRig, one_task_job, task_of

_TIMEOUT_S = 60.0
APART = ("Alloc Unhealthy",)
"""Types of events at no fixed place, which the recordings leave out of their sequences."""
_SETTLED_S = 2.0
"""How long a task that waits for something is watched before it counts as blocked."""
_OWN = ("t/private", "t/tmp", "t/alloc", "t/secrets/api.sock", "alloc/logs", "alloc/tmp")
_OF_THE_JOB = ("t/local", "t/secrets", "alloc")


@dataclass
class Running:
    """One case whose job was registered; `found` has the shape of a recorded output."""

    name: str
    case: Mapping[str, Any]
    job_id: str
    began_s: float
    found: dict[str, Any] = field(default_factory=dict)


def run_cases(rig: TemplateRig, cases: Mapping[str, Mapping[str, Any]]) -> list[Running]:
    """Runs the cases at the same time. Returns what each became."""
    begun = [_begun(rig, name, case) for name, case in cases.items()]
    waiting = [each for each in begun if not each.found]
    while waiting:
        allocs = rig.rig.http.get("/v1/allocations", params={"task_states": "true"}).json()
        by_job = {alloc["JobID"]: alloc for alloc in allocs}
        for each in waiting:
            each.found = _outcome(rig, each, by_job.get(each.job_id))
        waiting = [each for each in waiting if not each.found]
        if waiting:
            pause_blocking(0.1, "the tasks of recorded templates do not end")
    for each in begun:
        rig.rig.http.delete(f"/v1/job/{each.job_id}?purge=true")
    return begun


_DEPARTURES = re.compile(
    r"got dependency\.NomadVarItem|comparison: .*dependency\.NomadVarItem"
    r"|failed to resolve target path: lstat (local|/local|secrets|/secrets):"
)
"""Recorded failures where a task of this agent does not fail: docs/from-nomad.md says why."""


def differences(running: Running) -> list[str]:
    """What differs from every recorded output of the case; empty when one of them is met, or where
    the agent departs from Nomad on purpose."""
    case = running.case
    recorded = case.get("output") or case["output_any_of"][0]
    said = _last(recorded).replace("[redacted]", "")
    outcomes = (recorded["outcome"], running.found["outcome"])
    if outcomes == ("failed", "rendered") and _DEPARTURES.search(said):
        return []
    outputs = [case["output"]] if "output" in case else case["output_any_of"]
    found = [_differences(running.found, wanted) for wanted in outputs]
    return min(found, key=len)


def different_messages(running: Running) -> list[str]:
    """The texts of events and refusals that are not as recorded, though the rest may be."""
    wanted = running.case.get("output") or running.case["output_any_of"][0]
    pairs = zip(running.found.get("events") or (), wanted.get("events") or (), strict=False)
    texts = [(have["DisplayMessage"], want["DisplayMessage"]) for have, want in pairs]
    texts.append((running.found.get("error", ""), wanted.get("error", "")))
    return [f"{have!r}, not {want!r}" for have, want in texts if have.strip() != want.strip()]


def _begun(rig: TemplateRig, name: str, case: Mapping[str, Any]) -> Running:
    given = case["input"]
    templates = [whole_template(template) for template in given["templates"]]
    task = task_of(Templates=templates, Env=given["env"], Meta=given["meta"])
    task["Driver"] = given.get("driver") or "raw_exec"
    if any(template.get("Envvars") for template in templates):
        task["Config"] = {"command": "/usr/bin/env", "args": ["-0"]}
    if there := given.get("file_there_before"):
        directory = rig.files_dir / name
        directory.mkdir()
        (directory / there["name"]).write_text(there["text"])
        source = f"{rig.files_url}/{name}/{there['name']}"
        task["Artifacts"] = [{"GetterSource": source, "RelativeDest": there["path"]}]
    job = one_task_job(f"template-{name}", task)
    running = Running(name, case, job["ID"], time.monotonic())
    answer = rig.rig.http.put("/v1/jobs", json={"Job": job})
    if answer.status_code != 200:
        running.found = {"outcome": "refused", "error": answer.text}
    return running


def whole_template(template: Mapping[str, Any]) -> dict[str, Any]:
    """The template with its text written out."""
    text = template.get("EmbeddedTmpl")
    if isinstance(text, dict):
        return {**template, "EmbeddedTmpl": text["repeat"] * text["times"]}
    return dict(template)


def _outcome(rig: TemplateRig, running: Running, alloc: Mapping[str, Any] | None) -> dict[str, Any]:
    """The output so far; empty while the task is under way."""
    waited_s = time.monotonic() - running.began_s
    if alloc is None:
        evals = rig.rig.http.get(f"/v1/job/{running.job_id}/evaluations").json()
        if any(each.get("FailedTGAllocs") for each in evals):
            return {"outcome": "not placed"}
        return {"outcome": "timed out"} if waited_s > _TIMEOUT_S else {}
    state = (alloc["TaskStates"] or {}).get("t") or {"State": "pending", "Events": []}
    events = state["Events"] or []
    outcome = ""
    if state["State"] == "dead":
        outcome = "failed" if state["Failed"] else "rendered"
    elif events and events[-1]["Type"] == "Template" and waited_s > _SETTLED_S:
        outcome = "blocked"
    elif waited_s > _TIMEOUT_S:
        outcome = "timed out"
    if not outcome:
        return {}
    root = rig.agent_dir / "alloc" / alloc["ID"]
    masks = {str(rig.agent_dir): "<DATA_DIR>", alloc["ID"]: "<ALLOC_ID>"}
    shown = [
        {"Type": each["Type"], "DisplayMessage": _masked(each["DisplayMessage"], masks)}
        for each in events
        if each["Type"] not in APART
    ]
    found = {
        "outcome": outcome,
        "files": files_below(root, masks),
        "events": shown,
        "task": {name: state[name] for name in ("State", "Failed", "Restarts")},
    }
    stdout = root / "alloc/logs/t.stdout.0"
    if stdout.exists():
        lines = stdout.read_bytes().decode(errors="replace").split("\0")
        found["environment"] = dict(line.split("=", 1) for line in lines if "=" in line)
    return found


def _masked(text: str, masks: Mapping[str, str]) -> str:
    for value, mask in masks.items():
        text = text.replace(value, mask)
    return text


def files_below(root: Path, masks: Mapping[str, str]) -> dict[str, Any]:
    """The job's files by path below the allocation's directory."""
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        top_of_task = name.startswith("t/") and name.count("/") == 1
        if not path.is_file() or name.startswith(_OWN):
            continue
        if top_of_task or name.startswith(_OF_THE_JOB):
            data, about = path.read_bytes(), path.stat()
            found[name] = {
                "mode": oct(stat.S_IMODE(about.st_mode)),
                "uid": about.st_uid,
                "gid": about.st_gid,
                "text": _masked(data.decode(errors="surrogateescape"), masks),
                "size": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
    return found


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    problems = _outcome_differences(found, wanted)
    if found["outcome"] != wanted["outcome"] or "task" not in found:
        return problems
    have_types = _types(found.get("events") or ())
    want_types = _types(wanted.get("events") or ())
    if have_types != want_types:
        problems.append(f"events are {have_types}, not {want_types}")
    if "task" in wanted and found["task"] != wanted["task"]:
        problems.append(f"the task is {found['task']}, not {wanted['task']}")
    return problems


def _outcome_differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Of the outcome, the files and the environment."""
    if found["outcome"] != wanted["outcome"]:
        return [f"outcome is {found['outcome']!r}, not {wanted['outcome']!r}: {_last(found)}"]
    problems = []
    have_files, want_files = found.get("files") or {}, wanted.get("files") or {}
    for name in sorted(have_files.keys() | want_files.keys()):
        problems += _file_differences(name, have_files.get(name), want_files.get(name))
    for name, value in (wanted.get("environment") or {}).items():
        have = found.get("environment", {}).get(name)
        if have != value:
            problems.append(f"variable {name} is {have!r}, not {value!r}")
    return problems


def _types(events: Sequence[Mapping[str, Any]]) -> list[str]:
    return [each["Type"] for each in events]


def _last(found: Mapping[str, Any]) -> str:
    events = found.get("events") or [{"DisplayMessage": found.get("error", "")}]
    return str(events[-1]["DisplayMessage"])


def _file_differences(
    name: str, have: Mapping[str, Any] | None, want: Mapping[str, Any] | None
) -> list[str]:
    if have is None or want is None:
        return [f"{name} is {'missing' if have is None else 'there'}"]
    facts = ("mode", "uid", "gid", "sha256") if "sha256" in want else ("mode", "uid", "gid", "text")
    return [
        f"{name}: {fact} is {have[fact]!r}, not {want[fact]!r}"
        for fact in facts
        if have[fact] != want[fact] and not _masked_equal(fact, have[fact], want)
    ]


def _masked_equal(fact: str, have: Any, want: Mapping[str, Any]) -> bool:
    """Whether the texts are equal but for what the recording masked as an id."""
    if fact != "text" or not want.get("masked"):
        return False
    have_parts, want_parts = have.split("|"), want["text"].split("|")
    return len(have_parts) == len(want_parts) and all(
        h == w or "<UUID" in w or "<NODE_ID>" in w
        for h, w in zip(have_parts, want_parts, strict=True)
    )
