"""Changes of a recorded case after which the same must come out, in the changed words.

Each takes a copy of a case and gives the changed one, `expect` included, or None where it would
ask something else.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

Case = dict[str, Any]
Variant = Callable[[Case], Case | None]

_ID = re.compile(r"\b([0-9a-f]{8})-0000-4000-8000-([0-9]{12})\b")
_MOMENT = re.compile(r"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")
_LATER = timedelta(days=400, seconds=17)
_FIRST_TIME_NS = 10**18
_AMOUNTS = {
    *("CPU", "CpuShares", "MemoryMB", "MemoryMaxMB", "DiskMB", "SizeMB", "SecretsMB"),
    *("BaseSpeed", "GuessSpeed", "MaxSpeed"),
    *("cpu", "memory_mb", "memory_max_mb", "disk_mb"),
}
_LISTS = ("nodes", "jobs", "allocs", "deployments", "claims", "node_pools")


def other_ids(case: Case) -> Case:
    """Every object has another id, with another order among them."""
    text = json.dumps(case)
    renamed = _ID.sub(lambda found: f"{found[1]}-7777-4000-8000-{_turned(found[2])}", text)
    changed: Case = json.loads(renamed)
    return changed


def _turned(number: str) -> str:
    return f"{10**12 - 1 - int(number):012d}"


def other_order(case: Case) -> Case:
    """The lists of objects have another order."""
    rng = random.Random(5)
    for name in _LISTS:
        if name in case:
            rng.shuffle(case[name])
    for kind in case.get("volumes") or {}:
        rng.shuffle(case["volumes"][kind])
    return case


def later(case: Case) -> Case:
    """Everything happens 400 days later."""
    text = _MOMENT.sub(
        lambda found: (
            f"{datetime.fromisoformat(found[1]) + _LATER:%Y-%m-%dT%H:%M:%S}{found[2] or ''}Z"
        ),
        json.dumps(case),
    )
    changed: Case = _with_numbers(
        json.loads(text), lambda key, n: n + _LATER // timedelta(microseconds=1) * 1000
        if n > _FIRST_TIME_NS else n,
    )  # fmt: skip
    return changed


def higher_indexes(case: Case) -> Case:
    """The state has seen 7,000 more changes."""
    changed: Case = _with_numbers(
        case, lambda key, n: n + 7000 if key.endswith(("Index", "Indexes")) and n > 0 else n
    )
    return changed


def twice_as_large(case: Case) -> Case:
    """Nodes have twice as much, and everything takes twice as much."""
    changed: Case = _with_numbers(case, lambda key, n: 2 * n if key in _AMOUNTS else n)
    failed, kept = changed["expect"].get("failed_tg_allocs"), case["expect"]
    for group in failed or ():
        for name in {"DimensionExhausted"} & failed[group].keys():
            failed[group][name] = kept["failed_tg_allocs"][group][name]
    return changed


def _with_numbers(value: Any, change: Callable[[str, int], int], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _with_numbers(inner, change, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_numbers(inner, change, key) for inner in value]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return change(key, value) if is_number else value


def with_an_ineligible_node(case: Case) -> Case | None:
    return _with_node(case, SchedulingEligibility="ineligible")


def with_a_node_that_is_down(case: Case) -> Case | None:
    return _with_node(case, Status="down")


def with_a_node_elsewhere(case: Case) -> Case | None:
    if any("*" in glob for job in case["jobs"] for glob in job["Datacenters"]):
        return None
    return _with_node(case, Datacenter="elsewhere")


def with_a_node_of_another_pool(case: Case) -> Case | None:
    if any(job.get("NodePool") == "all" for job in case["jobs"]):
        return None
    return _with_node(case, NodePool="other-pool")


def _with_node(case: Case, **changes: object) -> Case | None:
    if not case["nodes"]:
        return None
    node = deepcopy(case["nodes"][0]) | {"ID": "0de00000-9999-4000-8000-000000000001"}
    node |= {"Name": "one-more", "ComputedClass": "v1:999", "DrainStrategy": None}
    node |= {"Status": "ready", "SchedulingEligibility": "eligible"} | changes
    case["nodes"].append(node)
    return case


def with_a_namesake_in_another_namespace(case: Case) -> Case | None:
    """A job of the same id, with allocations on a node of its own, and its deployments."""
    if not case["nodes"] or not case["jobs"]:
        return None
    there = _with_node(case, SchedulingEligibility="ineligible")
    assert there is not None, "there are nodes"
    node = there["nodes"][-1]["ID"]
    for table, prefix in (("jobs", ""), ("allocs", "a110c000"), ("deployments", "de910000")):
        copies = deepcopy(case.get(table) or [])
        for number, entry in enumerate(copies):
            entry["Namespace"] = "another"
            if prefix:
                entry["ID"] = f"{prefix}-9999-4000-8000-{number:012d}"
            if table == "allocs":
                entry |= {"NodeID": node, "NextAllocation": "", "PreviousAllocation": ""}
        case.setdefault(table, []).extend(copies)
    return case


def with_what_ended_long_ago(case: Case) -> Case | None:
    """Allocations of a service job that the servers ended and the agents have reported."""
    if case["eval"]["Type"] != "service":
        return None
    ended = [
        deepcopy(allocation)
        | {"ID": f"a110c000-9999-4000-8000-{number:012d}", "ClientStatus": "complete"}
        | {"DesiredStatus": "stop", "AllocStates": None, "RescheduleTracker": None}
        | {"NextAllocation": "", "FollowupEvalID": "", "DesiredTransition": {}}
        for number, allocation in enumerate(case["allocs"])
        if allocation["JobID"] == case["eval"]["JobID"]
    ]
    case["allocs"] += ended
    return case


VARIANTS: dict[str, Variant] = {
    variant.__name__: variant
    for variant in (
        other_ids,
        other_order,
        later,
        higher_indexes,
        twice_as_large,
        with_an_ineligible_node,
        with_a_node_that_is_down,
        with_a_node_elsewhere,
        with_a_node_of_another_pool,
        with_a_namesake_in_another_namespace,
        with_what_ended_long_ago,
    )
}
