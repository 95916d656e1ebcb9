"""The difference between two versions of a job, field by field, in Nomad's shape.

One generic walk; `shapes` names what it must know about each kind of object. An object counts as
edited when its two versions are not equal, even if nothing that is shown differs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from orchgit.errors import InvalidInputError
from orchgit.jobdiff.flatten import flat_fields, flat_tree
from orchgit.jobdiff.report import (
    DiffType,
    FieldDiff,
    JobDiff,
    ObjectDiff,
    TaskDiff,
    TaskGroupDiff,
)
from orchgit.jobdiff.shapes import (
    GROUP_CHILDREN,
    GROUP_OMIT,
    JOB_CHILDREN,
    JOB_OMIT,
    TASK_CHILDREN,
    TASK_OMIT,
    Child,
    Kind,
    Shape,
    get,
)
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.task import Task

T = TypeVar("T")


def diff_jobs(old: Job | None, new: Job | None, contextual: bool = True) -> JobDiff:
    """What changes from `old` to `new`; one of them may be None. `contextual` also shows the
    unchanged fields of edited objects. Raises InvalidInputError for two different jobs."""
    if old is not None and new is not None and old.id != new.id:
        raise InvalidInputError(f"cannot compare job {old.id!r} with {new.id!r}: ids differ")
    named = new or old
    if named is None:
        return JobDiff(DiffType.NONE, "")
    fields = _fields(_flat(old, JOB_OMIT), _flat(new, JOB_OMIT), contextual=False)
    objects = _children(old, new, JOB_CHILDREN, contextual)
    groups = _groups(old, new, contextual)
    changed = fields or objects or any(group.type != DiffType.NONE for group in groups)
    return JobDiff(
        _type(old, new, bool(changed)), named.id, fields or None, objects or None, groups or None
    )


def _groups(old: Job | None, new: Job | None, contextual: bool) -> list[TaskGroupDiff]:
    def key(group: TaskGroup) -> str:
        return group.name

    pairs = _paired(old.task_groups if old else (), new.task_groups if new else (), key)
    return [_group(name, before, after, contextual) for name, before, after in pairs]


def _group(
    name: str, old: TaskGroup | None, new: TaskGroup | None, contextual: bool
) -> TaskGroupDiff:
    fields = _fields(_flat(old, GROUP_OMIT), _flat(new, GROUP_OMIT), contextual=False)
    objects = _children(old, new, GROUP_CHILDREN, contextual)
    pairs = _paired(old.tasks if old else (), new.tasks if new else (), lambda task: task.name)
    tasks = [_task(task_name, before, after, contextual) for task_name, before, after in pairs]
    changed = fields or objects or any(task.type != DiffType.NONE for task in tasks)
    return TaskGroupDiff(
        _type(old, new, bool(changed)), name, fields or None, objects or None, tasks or None
    )


def _task(name: str, old: Task | None, new: Task | None, contextual: bool) -> TaskDiff:
    old, new = _with_named_services(old), _with_named_services(new)
    fields = _fields(_flat(old, TASK_OMIT), _flat(new, TASK_OMIT), contextual=False)
    objects = _children(old, new, TASK_CHILDREN, contextual)
    return TaskDiff(_type(old, new, old != new), name, fields or None, objects or None)


def _with_named_services(task: Task | None) -> Task | None:
    """A task's own services belong to it, whether or not they say so."""
    if task is None or not task.services:
        return task
    services = [replace(each, task_name=each.task_name or task.name) for each in task.services]
    return replace(task, services=services)


def _flat(value: object, omit: Collection[str]) -> dict[str, str]:
    return flat_fields(value, omit)


def _type(old: object, new: object, changed: bool) -> DiffType:
    if old is None:
        return DiffType.ADDED
    if new is None:
        return DiffType.DELETED
    return DiffType.EDITED if changed else DiffType.NONE


def _paired(
    old: Iterable[T], new: Iterable[T], key: Callable[[T], str]
) -> list[tuple[str, T | None, T | None]]:
    """Both sides by key, sorted by it."""
    before = {key(item): item for item in old}
    after = {key(item): item for item in new}
    return [(k, before.get(k), after.get(k)) for k in sorted(before.keys() | after.keys())]


def _fields(old: Mapping[str, str], new: Mapping[str, str], contextual: bool) -> list[FieldDiff]:
    found = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, ""), new.get(name, "")
        kind = _field_type(before, after)
        if contextual or kind is not DiffType.NONE:
            found.append(FieldDiff(kind, name, before, after))
    return found


def _field_type(before: str, after: str) -> DiffType:
    """An empty text is no value."""
    if before == after:
        return DiffType.NONE
    if not before:
        return DiffType.ADDED
    return DiffType.EDITED if after else DiffType.DELETED


def _children(
    old: object, new: object, children: Sequence[Child], contextual: bool
) -> list[ObjectDiff]:
    found: list[ObjectDiff] = []
    for child in children:
        before = _value(old, child)
        after = _value(new, child)
        found += _MATCH[child.kind](before, after, child, contextual)
    return found


def _value(owner: object, child: Child) -> object:
    if owner is None:
        return None
    value = get(owner, child.attribute)
    return child.implied if value is None else value


def _single(old: object, new: object, child: Child, contextual: bool) -> list[ObjectDiff]:
    if old == new:
        return []
    return [_object(old, new, child.shape, contextual)]


def _object(old: object, new: object, shape: Shape, contextual: bool) -> ObjectDiff:
    fields = _fields(_shown(old, shape), _shown(new, shape), contextual)
    objects = _children(old, new, shape.children, contextual)
    kind = _type(old, new, old != new)
    return ObjectDiff(kind, shape.name, fields or None, objects or None)


def _shown(value: object, shape: Shape) -> dict[str, str]:
    if value is None:
        return {}
    found = flat_fields(value, shape.omit, shape.template, shape.joined)
    return {shape.renamed.get(name, name): text for name, text in found.items()}


def _keyed(old: object, new: object, child: Child, contextual: bool) -> list[ObjectDiff]:
    pairs = _paired(_listed(old), _listed(new), child.key)
    return [
        _object(before, after, child.shape, contextual)
        for _, before, after in pairs
        if before != after
    ]


def _set(old: object, new: object, child: Child, contextual: bool) -> list[ObjectDiff]:
    before = {_identity(item): item for item in _listed(old)}
    after = {_identity(item): item for item in _listed(new)}
    gone = [_object(before[k], None, child.shape, contextual) for k in before.keys() - after.keys()]
    come = [_object(None, after[k], child.shape, contextual) for k in after.keys() - before.keys()]
    return _sorted([*gone, *come])


def _identity(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def _listed(value: object) -> list[object]:
    if value is None:
        return []
    return list(value.values()) if isinstance(value, Mapping) else list(value)  # type: ignore[call-overload]


def _strings(old: object, new: object, child: Child, contextual: bool) -> list[ObjectDiff]:
    """Shown unchanged too, inside an object that is shown: the walk asks only for those."""
    before, after = set(map(str, _listed(old))), set(map(str, _listed(new)))
    if not before and not after:
        return []
    if before == after and (not contextual or child.attribute == "datacenters"):
        return []
    name = child.shape.name
    fields = [FieldDiff(DiffType.DELETED, name, text, "") for text in before - after]
    fields += [FieldDiff(DiffType.ADDED, name, "", text) for text in after - before]
    kind = DiffType.NONE
    if fields:
        kind = DiffType.EDITED
        if after >= before:
            kind = DiffType.ADDED
        elif before >= after:
            kind = DiffType.DELETED
    if contextual:
        fields += [FieldDiff(DiffType.NONE, name, text, text) for text in before & after]
    fields.sort(key=lambda each: (each.old, each.new))
    return [ObjectDiff(kind, name, fields or None)]


def _tree(old: object, new: object, child: Child, contextual: bool) -> list[ObjectDiff]:
    if (old or None) == (new or None):
        return []
    fields = _fields(flat_tree(old), flat_tree(new), contextual)
    kind = _type(old or None, new or None, True)
    return [ObjectDiff(kind, child.shape.name, fields or None)]


def _sorted(objects: Iterable[ObjectDiff]) -> list[ObjectDiff]:
    return sorted(objects, key=_order)


def _order(diff: ObjectDiff) -> tuple[str, str, list[tuple[str, str, str]], bytes]:
    fields = [(each.name, each.old, each.new) for each in diff.fields or ()]
    return (diff.name, diff.type, fields, msgspec.msgpack.encode(diff.objects))


_MATCH: Mapping[Kind, Callable[[object, object, Child, bool], list[ObjectDiff]]] = {
    Kind.SINGLE: _single,
    Kind.KEYED: _keyed,
    Kind.SET: _set,
    Kind.STRINGS: _strings,
    Kind.TREE: _tree,
}
