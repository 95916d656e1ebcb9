"""Leaves out of a job what reading it again restores: its defaults, and what blocks inherit.

There is no list of defaults here. A part may go if the job completed without the part equals the
job completed with it; the function that completes jobs decides. To keep that cheap, each task is
tried in a job that has no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobspec.blocks.table import JOB, TABLES, BlockTable
from orchgit.errors import InvalidInputError

Spec = dict[str, Any]
Completed = Callable[[Spec], Any]
"""`canonicalize`, or `to_job`: parts without which the result is the same may go."""

_KEPT = {
    "job": ("ID", "Name", "Type"),
    "group": ("Count",),
    "task": ("Driver",),
    "service": ("Name", "Provider"),
    "resources": ("CPU", "MemoryMB"),
    "affinity": ("Weight",),
    "spread": ("Weight",),
}
"""Written even where it is the default: a reader looks for it."""


def shorten(spec: Spec, completed: Completed) -> Spec:
    """Returns a copy of a complete API tree without the parts that the defaults restore."""
    job: Spec = _copy(spec)
    groups = job["TaskGroups"] or []
    shortened = []
    for group in groups:
        tasks = group["Tasks"] or []
        for task in tasks:
            alone = {**job, "TaskGroups": [{**group, "Tasks": [task]}]}
            _Shortening(alone, completed).drop(TABLES["task"], task)
        outside = {**group, "Tasks": tasks[:1] or None}
        _Shortening({**job, "TaskGroups": [outside]}, completed).drop(
            TABLES["group"], outside, skip="Tasks"
        )
        shortened.append({**outside, "Tasks": group["Tasks"]})
    if groups:
        job["TaskGroups"] = shortened
    _Shortening(job, completed).drop(JOB, job, skip="TaskGroups")
    return job


class _Shortening:
    """Tries parts of one job, in place."""

    def __init__(self, job: Spec, completed: Completed) -> None:
        self._job = job
        self._completed = completed
        self._wanted = completed(job)

    def drop(self, table: BlockTable, part: Spec, skip: str = "") -> None:
        """Drop from `part`, which is somewhere in the job, what makes no difference to the job."""
        for field in table.blocks.values():
            if field.key == skip or part.get(field.key) is None:
                continue
            if self._goes(part, field.key, None) or field.table is None:
                continue
            for item in _inside(part[field.key], field.how):
                self.drop(field.table, item)
        kept = _KEPT.get(table.name, ())
        for attribute in table.attributes.values():
            key = attribute.key
            if key not in kept and key in part and part[key] != table.empty.get(key):
                self._goes(part, key, table.empty.get(key))

    def _goes(self, part: Spec, key: str, empty: Any) -> bool:
        before = part[key]
        part[key] = empty
        try:
            same = bool(self._completed(self._job) == self._wanted)
        except InvalidInputError:
            same = False
        if not same:
            part[key] = before
        return same


def _inside(value: Any, how: str) -> list[Spec]:
    if how == "many":
        return list(value)
    return list(value.values()) if how == "keyed" else [value]


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
