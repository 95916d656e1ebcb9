"""Differences of every kind of block, recorded from Nomad 1.10's plan endpoint.

`diff-neighbours.json` holds, by name: `old` and `new` as what differs from the base job (paths and
values; no `old`: a new job), and the report's changed lines in their order.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.run_diff_golden import report

GOLDEN = Path(__file__).parents[2] / "golden"
BASE = json.loads((GOLDEN / "diff" / "job_stop.json").read_text(encoding="utf-8"))["old"]
CASES = json.loads((GOLDEN / "diff-neighbours.json").read_text(encoding="utf-8"))
MESH = json.loads((GOLDEN / "mesh-diff-neighbours.json").read_text(encoding="utf-8"))
NEWER_FIELDS = {("Service", "Kind"), ("Template", "Once")}
"""Not known to the version that the reports come from."""


@pytest.mark.parametrize("name", CASES)
def test_every_block_is_reported_as_recorded(name: str) -> None:
    case = CASES[name]
    old = _job(case["old"]) if "old" in case else None
    jobs = {"old": old, "new": _job(case["new"]), "DesiredTGUpdates": None}
    found = report(jobs)
    assert [f"Job {found['Type']}", *_lines(found)] == case["report"]


@pytest.mark.parametrize("name", MESH)
def test_connect_block_is_reported_as_recorded(name: str) -> None:
    """Of a service alone: the recorded jobs also got the tasks that the mesh brings."""
    case = MESH[name]
    jobs = {side: _meshed(case[side]) for side in ("old", "new")}
    objects = report({**jobs, "DesiredTGUpdates": None})["TaskGroups"][0]["Objects"]
    (service,) = [each for each in objects if each["Name"] == "Service"]
    (connect,) = [each for each in service["Objects"] if each["Name"] == "ConsulConnect"]
    assert [connect["Type"], *_lines(connect)] == case["report"]


def _meshed(connect: dict[str, Any] | None) -> dict[str, Any]:
    service = {"Name": "web", "Provider": "consul", "PortLabel": "8080", "Connect": connect}
    return _job({"TaskGroups.0.Services": [service]})


def _job(changes: dict[str, Any]) -> dict[str, Any]:
    job: dict[str, Any] = copy.deepcopy(BASE)
    for path, value in changes.items():
        *parents, last = path.split(".")
        owner: Any = job
        for part in parents:
            owner = owner[int(part)] if isinstance(owner, list) else owner[part]
        if value == "(absent)":
            del owner[last]
        else:
            owner[last] = value
    return job


def _lines(owner: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Changed fields and all objects; unchanged fields are the other cases' business."""
    indent = "  " * depth
    for field in owner["Fields"] or ():
        if field["Type"] != "None" and (owner.get("Name"), field["Name"]) not in NEWER_FIELDS:
            change = f"{field['Name']}: {field['Old']!r} -> {field['New']!r}"
            yield f"{indent}{field['Type']} {change}{_annotation(field)}"
    for kind in ("Objects", "TaskGroups", "Tasks"):
        for child in owner.get(kind) or ():
            if kind == "Objects" or child["Type"] != "None":
                yield f"{indent}{child['Type']} {child['Name']}{_annotation(child)}"
                yield from _lines(child, depth + 1)


def _annotation(owner: dict[str, Any]) -> str:
    return f" ({owner['Annotations'][0]})" if owner.get("Annotations") else ""
