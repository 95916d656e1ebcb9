"""Prints a job diff, and a plan's counts, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchgit.cli.printing.output import console, plain

MARKS = {
    "Added": "[green]+[/green]",
    "Deleted": "[red]-[/red]",
    "Edited": "[yellow]+/-[/yellow]",
    "None": "  ",
}

COUNTS = {
    "Place": "create",
    "DestructiveUpdate": "create/destroy update",
    "InPlaceUpdate": "in-place update",
    "Stop": "destroy",
    "Migrate": "migrate",
    "Canary": "canary",
    "Preemptions": "evict",
    "Ignore": "ignore",
}


def print_job_diff(diff: dict[str, Any], verbose: bool = False) -> None:
    """Prints the changed fields of a job, its groups and tasks."""
    for line in job_diff_lines(diff, verbose):
        console().print(line)


def job_diff_lines(diff: dict[str, Any], verbose: bool = False) -> Iterator[str]:
    """Yields the lines; for an object that is new or gone only its name, unless `verbose`."""
    yield f"{MARKS[diff['Type']]} Job: {plain(repr(diff['ID']))}"
    if diff["Type"] == "Edited" or verbose:
        yield from _body_lines(diff, "  ", verbose)
    for group in diff.get("TaskGroups") or []:
        yield from _group_lines(group, verbose)


def _group_lines(group: dict[str, Any], verbose: bool) -> Iterator[str]:
    counts = ", ".join(
        f"{count} {name}" for name, count in sorted((group.get("Updates") or {}).items())
    )
    if group["Type"] == "None" and not verbose and not counts:
        return
    note = f" ({counts})" if counts else ""
    yield f"{MARKS[group['Type']]} Task Group: {plain(repr(group['Name']))}{note}"
    if group["Type"] == "Edited" or verbose:
        yield from _body_lines(group, "  ", verbose)
    for task in group.get("Tasks") or []:
        if task["Type"] == "None" and not verbose:
            continue
        note = _annotations(task)
        yield f"  {MARKS[task['Type']]} Task: {plain(repr(task['Name']))}{note}"
        if task["Type"] == "Edited" or verbose:
            yield from _body_lines(task, "    ", verbose)


def _body_lines(node: dict[str, Any], indent: str, verbose: bool) -> Iterator[str]:
    for field in node.get("Fields") or []:
        if field["Type"] == "None" and not verbose:
            continue
        yield f"{indent}{MARKS[field['Type']]} {plain(field['Name'])}: {_values(field)}" + (
            _annotations(field)
        )
    for item in node.get("Objects") or []:
        is_empty = not item.get("Fields") and not item.get("Objects")
        if (item["Type"] == "None" or (item["Type"] == "Edited" and is_empty)) and not verbose:
            continue
        yield f"{indent}{MARKS[item['Type']]} {plain(item['Name'])} {{"
        yield from _body_lines(item, indent + "  ", verbose)
        yield f"{indent}}}"


def _values(field: dict[str, Any]) -> str:
    old, new = plain(repr(field["Old"])), plain(repr(field["New"]))
    if field["Type"] == "Added":
        return new
    if field["Type"] == "Deleted":
        return old
    return f"{old} => {new}"


def _annotations(node: dict[str, Any]) -> str:
    notes = node.get("Annotations") or []
    return f" ({', '.join(plain(each) for each in notes)})" if notes else ""


def count_text(desired_updates: dict[str, int]) -> str:
    """Returns `2 create, 1 destroy` of one group's DesiredUpdates; "" when nothing changes."""
    return ", ".join(
        f"{desired_updates[key]} {name}"
        for key, name in COUNTS.items()
        if desired_updates.get(key) and key != "Ignore"
    )


def changes_anything(annotations: dict[str, Any] | None) -> bool:
    """Returns whether a plan places or stops allocations (in-place changes do not count)."""
    groups = (annotations or {}).get("DesiredTGUpdates") or {}
    return any(
        group.get(key)
        for group in groups.values()
        for key in ("Place", "Stop", "Migrate", "DestructiveUpdate", "Canary")
    )
