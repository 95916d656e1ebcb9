"""The rules of comparison of the recorded scheduling cases: each problem as one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

_LISTS = ("stops", "places", "updates", "preemptions")
_FREE_METRICS = ("metrics",)
Entry = dict[str, Any]


def fits(wanted: Any, found: Any) -> bool:
    """Whether `found` has everything that `wanted` states; what it does not state is free.

    The order of names and ids (of what is preempted, of canaries, of devices) means nothing."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            fits(value, found.get(key)) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and wanted and all(isinstance(one, str) for one in wanted):
        return isinstance(found, list) and sorted(wanted) == sorted(found)
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(fits(one, other) for one, other in zip(wanted, found, strict=True))
        )
    if isinstance(wanted, float) or isinstance(found, float):
        return found is not None and math.isclose(wanted, found, rel_tol=1e-9, abs_tol=1e-9)
    return bool(wanted == found)


def entry_fits(wanted: Entry, found: Entry) -> bool:
    """One entry of a list of changes; `X_in` allows any of its values for X."""
    for key, value in wanted.items():
        if key in _FREE_METRICS:
            continue
        if key.endswith("_in"):
            if found.get(key.removesuffix("_in")) not in value:
                return False
        elif not fits(value, found.get(key)):
            return False
    return True


def matching(wanted: list[Entry], found: list[Entry]) -> list[int | None]:
    """For each wanted entry the position of its own found entry, as many as possible."""
    taken: dict[int, int] = {}

    def assign(want: int, tried: set[int]) -> bool:
        for position, entry in enumerate(found):
            if position in tried or not entry_fits(wanted[want], entry):
                continue
            tried.add(position)
            if position not in taken or assign(taken[position], tried):
                taken[position] = want
                return True
        return False

    for want in range(len(wanted)):
        assign(want, set())
    assigned = {want: position for position, want in taken.items()}
    return [assigned.get(want) for want in range(len(wanted))]


def compare_lists(name: str, wanted: Entry, found: list[Entry]) -> Iterator[str]:
    entries = wanted.get(name, [])
    assigned = matching(entries, found)
    for entry, position in zip(entries, assigned, strict=True):
        if position is None:
            yield f"{name}: missing {entry}"
    rest = [entry for i, entry in enumerate(found) if i not in set(assigned)]
    choice = wanted.get(f"{name}_any")
    if choice is None:
        yield from (f"{name}: too many: {entry}" for entry in rest)
        return
    counts = choice.get("count_in", [choice.get("count")])
    if len(rest) not in counts:
        yield f"{name}: {len(rest)} besides the certain ones, wanted {counts}"
    usable = matching(choice["among"], rest)
    if sum(position is not None for position in usable) < len(rest):
        yield f"{name}: not among the allowed: {rest}"


def compare_plan(wanted: Entry, found: Entry) -> Iterator[str]:
    for name in _LISTS:
        if name in wanted:
            yield from compare_lists(name, wanted, found[name])
    for name in ("no_op", "all_at_once"):
        if name in wanted and wanted[name] != found[name]:
            yield f"{name}: wanted {wanted[name]}"
    for name in ("deployment", "distribution"):
        if name in wanted and not fits(wanted[name], found.get(name)):
            yield f"{name}: wanted {wanted[name]}, found {found.get(name)}"
    if "deployment" not in wanted and "deployment" in found:
        yield f"deployment: not wanted: {found['deployment']}"
    updates = wanted.get("deployment_updates", [])
    if len(updates) != len(found["deployment_updates"]) or any(
        p is None for p in matching(updates, found["deployment_updates"])
    ):
        yield f"deployment_updates: wanted {updates}, found {found['deployment_updates']}"
    yield from compare_scores(wanted.get("scores", {}), found["scores"])


def compare_scores(wanted: Entry, found: Entry) -> Iterator[str]:
    for placement, nodes in wanted.items():
        for node, scores in nodes.items():
            ours = found.get(placement, {}).get(node)
            if not fits(scores, ours):
                yield f"scores of {placement} on {node}: wanted {scores}, found {ours}"


def compare_evaluation(wanted: Entry, found: Entry, varies: list[str]) -> Iterator[str]:
    exact = ("eval_status", "eval_status_description", "eval_blocked_eval_set", "plans")
    for name in (*exact, "followup_evals", "reblocked", "claims_after"):
        if name in wanted and not fits(wanted[name], found.get(name)):
            yield f"{name}: wanted {wanted[name]}, found {found.get(name)}"
    deployment = wanted.get("eval_deployment", "")
    if deployment != found["eval_deployment"] and "eval_deployment" not in varies:
        yield f"eval_deployment: wanted {deployment!r}, found {found['eval_deployment']!r}"
    for name, is_free in (
        ("queued_allocations", lambda path: path in varies),
        ("desired_tg_updates", lambda path: path in varies),
        ("claims_after", lambda path: path in varies),
    ):
        if name in wanted:
            yield from _same_map(name, wanted[name], found[name], is_free)
    if "failed_tg_allocs" in wanted:
        failed, ours = wanted["failed_tg_allocs"], found["failed_tg_allocs"]
        if failed.keys() != ours.keys() or not fits(failed, ours):
            yield f"failed_tg_allocs: wanted {failed}, found {ours}"
    if "blocked_evals" in wanted:
        yield from compare_lists("blocked_evals", wanted, found["blocked_evals"])


def _same_map(
    name: str, wanted: Entry, found: Entry, is_free: Callable[[str], bool]
) -> Iterator[str]:
    for key in sorted(wanted.keys() | found.keys()):
        ours, theirs = found.get(key), wanted.get(key)
        path = f"{name}.{key}"
        if isinstance(ours, dict) and isinstance(theirs, dict):
            yield from _same_map(path, theirs, ours, is_free)
        elif ours != theirs and not is_free(path):
            yield f"{path}: wanted {theirs}, found {ours}"
