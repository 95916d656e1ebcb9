"""Leaves out of a job what reading it again puts back: its defaults, and what blocks inherit.

No list of defaults is kept here. A part may go if the job completed without it is the same as the
job completed with it, and `canonicalize`, which knows the defaults, is asked. To keep that cheap,
each task is tried in a job that has no other.
"""

from __future__ import annotations

from typing import Any

from jobspec.blocks import JOB, TABLES, BlockTable
from jobspec.canonicalize import canonicalize

Spec = dict[str, Any]

_KEPT = frozenset(("ID", "Type", "Count", "Driver", "CPU", "MemoryMB", "Weight", "Name"))
"""Said even where it is the default: a reader looks for it."""


def shorten(spec: Spec) -> Spec:
    """A copy of a complete API tree without what its defaults say anyway."""
    job: Spec = _copy(spec)
    groups = job["TaskGroups"] or []
    shortened = []
    for group in groups:
        tasks = group["Tasks"] or []
        for task in tasks:
            alone = {**job, "TaskGroups": [{**group, "Tasks": [task]}]}
            _try_all(alone, TABLES["task"], task)
        first = tasks[:1] or None
        outside = {**group, "Tasks": first}
        _try_all({**job, "TaskGroups": [outside]}, TABLES["group"], outside, skip="Tasks")
        shortened.append({**outside, "Tasks": group["Tasks"]})
    if groups:
        job["TaskGroups"] = shortened
    _try_all(job, JOB, job, skip="TaskGroups")
    return job


def _try_all(job: Spec, table: BlockTable, part: Spec, skip: str = "") -> None:
    """Drop from `part`, which lies somewhere in `job`, what makes no difference to the job."""
    _drop(job, table, part, canonicalize(job), skip)


def _drop(job: Spec, table: BlockTable, part: Spec, wanted: Spec, skip: str) -> None:
    for field in table.blocks.values():
        if field.key == skip or part.get(field.key) is None:
            continue
        if _goes(job, part, field.key, None, wanted) or field.table is None:
            continue
        for item in _inside(part[field.key], field.how):
            _drop(job, field.table, item, wanted, "")
    for attribute in table.attributes.values():
        key = attribute.key
        if key in _KEPT or key not in part or part[key] == table.empty.get(key):
            continue
        _goes(job, part, key, table.empty.get(key), wanted)


def _goes(job: Spec, part: Spec, key: str, empty: Any, wanted: Spec) -> bool:
    before = part[key]
    part[key] = empty
    if canonicalize(job) == wanted:
        return True
    part[key] = before
    return False


def _inside(value: Any, how: str) -> list[Spec]:
    if how == "many":
        return list(value)
    return list(value.values()) if how == "keyed" else [value]


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
