"""The difference between two versions of a job, field by field, in Nomad's shape.

One generic walk; `shapes` names what it must know about each kind of object. An object counts as
edited when its two versions are not equal, even if nothing that is shown differs, unless its shape
is plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest

import msgspec

from orchgit.errors import InvalidInputError
from orchgit.jobdiff.flatten import as_text, flat_fields, flat_tree, free_form_text
from orchgit.jobdiff.implied import completed
from orchgit.jobdiff.pairing import by_key, by_likeness
from orchgit.jobdiff.report import (
    DiffType,
    FieldDiff,
    JobDiff,
    ObjectDiff,
    TaskDiff,
    TaskGroupDiff,
)
from orchgit.jobdiff.shape import Matching, ObjectField, ObjectShape, get
from orchgit.jobdiff.shapes import (
    GROUP_OBJECTS,
    GROUP_OMIT,
    GROUP_OPTIONAL,
    JOB_OBJECTS,
    JOB_OMIT,
    TASK_OBJECTS,
    TASK_OMIT,
)
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.task import Task


def diff_jobs(old: Job | None, new: Job | None, contextual: bool = True) -> JobDiff:
    """What changes from `old` to `new`; one of them may be None. `contextual` also shows the
    unchanged fields of edited objects. Raises InvalidInputError for two different jobs."""
    if old is not None and new is not None and old.id != new.id:
        raise InvalidInputError(f"cannot compare job {old.id!r} with {new.id!r}: ids differ")
    named = new or old
    if named is None:
        return JobDiff(DiffType.NONE, "")
    fields = _fields(flat_fields(old, JOB_OMIT), flat_fields(new, JOB_OMIT), contextual=False)
    objects = _children(old, new, JOB_OBJECTS, contextual)
    groups = _groups(old, new, contextual)
    changed = fields or objects or any(group.type != DiffType.NONE for group in groups)
    return JobDiff(
        _type(old, new, bool(changed)), named.id, fields or None, objects or None, groups or None
    )


def _groups(old: Job | None, new: Job | None, contextual: bool) -> list[TaskGroupDiff]:
    def key(group: TaskGroup) -> str:
        return group.name

    pairs = by_key(old.task_groups if old else (), new.task_groups if new else (), key)
    return [_group(name, before, after, contextual) for name, before, after in pairs]


def _group(
    name: str, old: TaskGroup | None, new: TaskGroup | None, contextual: bool
) -> TaskGroupDiff:
    old, new = completed(old), completed(new)
    omit = GROUP_OMIT if old and new else GROUP_OMIT | GROUP_OPTIONAL
    fields = _fields(flat_fields(old, omit), flat_fields(new, omit), contextual=False)
    objects = _children(old, new, GROUP_OBJECTS, contextual)
    pairs = by_key(old.tasks if old else (), new.tasks if new else (), lambda task: task.name)
    tasks = [_task(task_name, before, after, contextual) for task_name, before, after in pairs]
    kind = _type(old, new, _changed(old, new))
    return TaskGroupDiff(kind, name, fields or None, objects or None, tasks or None)


def _changed(old: TaskGroup | None, new: TaskGroup | None) -> bool:
    """Whether the groups are not the same, though nothing that is shown may differ."""
    return old != new


def _task(name: str, old: Task | None, new: Task | None, contextual: bool) -> TaskDiff:
    fields = _fields(flat_fields(old, TASK_OMIT), flat_fields(new, TASK_OMIT), contextual=False)
    objects = _children(old, new, TASK_OBJECTS, contextual)
    return TaskDiff(_type(old, new, old != new), name, fields or None, objects or None)


def _type(old: object, new: object, changed: bool) -> DiffType:
    if old is None:
        return DiffType.ADDED
    if new is None:
        return DiffType.DELETED
    return DiffType.EDITED if changed else DiffType.NONE


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
    old: object, new: object, children: Sequence[ObjectField], contextual: bool
) -> list[ObjectDiff]:
    found: list[ObjectDiff] = []
    for child in children:
        before = _value(old, child)
        after = _value(new, child)
        found += _MATCH[child.kind](before, after, child, contextual and child.contextual)
    return found


def _value(owner: object, child: ObjectField) -> object:
    if owner is None:
        return None
    return get(owner, child.attribute)


def _single(old: object, new: object, child: ObjectField, contextual: bool) -> list[ObjectDiff]:
    if child.always and contextual and old is None and new is None:
        return [ObjectDiff(DiffType.NONE, child.shape.name)]
    return _objects([(old, new)], child.shape, contextual)


def _objects(
    pairs: Iterable[tuple[object, object]], shape: ObjectShape, contextual: bool
) -> list[ObjectDiff]:
    found = (_object(old, new, shape, contextual) for old, new in pairs if old != new)
    return [diff for diff in found if diff.type != DiffType.NONE]


def _object(old: object, new: object, shape: ObjectShape, contextual: bool) -> ObjectDiff:
    fields = _fields(_shown(old, shape), _shown(new, shape), contextual and not shape.brief)
    objects = _children(old, new, shape.objects, contextual)
    kind = _sum([*fields, *objects]) if shape.plain else _type(old, new, True)
    return ObjectDiff(kind, shape.name, fields or None, objects or None)


def _sum(parts: Sequence[FieldDiff | ObjectDiff]) -> DiffType:
    """What an object is that is nothing beside its parts."""
    kinds = {part.type for part in parts} - {DiffType.NONE}
    if len(kinds) == 1:
        return DiffType(kinds.pop())
    return DiffType.EDITED if kinds else DiffType.NONE


def _shown(value: object, shape: ObjectShape) -> dict[str, str]:
    if value is None:
        return {}
    found = flat_fields(value, shape.omit, shape.template, shape.joined)
    return {shape.renamed.get(name, name): text for name, text in found.items()}


def _keyed(old: object, new: object, child: ObjectField, contextual: bool) -> list[ObjectDiff]:
    before, after = _listed(old), _listed(new)
    pairs = [(one, other) for _, one, other in by_key(before, after, child.key)]
    if child.alone and len(before) == len(after) == 1:
        pairs = [(before[0], after[0])]
    return _ordered(_objects(pairs, child.shape, contextual))


def _named(old: object, new: object, child: ObjectField, contextual: bool) -> list[ObjectDiff]:
    """What was there before what is new."""
    pairs = [(one, other) for _, one, other in by_key(_listed(old), _listed(new), child.key)]
    pairs.sort(key=lambda pair: pair[0] is None)
    return _objects(pairs, child.shape, contextual)


def _alike(old: object, new: object, child: ObjectField, contextual: bool) -> list[ObjectDiff]:
    pairs = by_likeness(_listed(old), _listed(new))
    return _ordered(_objects(pairs, child.shape, contextual))


def _placed(old: object, new: object, child: ObjectField, contextual: bool) -> list[ObjectDiff]:
    pairs = zip_longest(_listed(old), _listed(new))
    return _ordered(_objects(pairs, child.shape, contextual))


def _set(old: object, new: object, child: ObjectField, contextual: bool) -> list[ObjectDiff]:
    before = {_identity(item): item for item in _listed(old)}
    after = {_identity(item): item for item in _listed(new)}
    gone = [(before[key], None) for key in before.keys() - after.keys()]
    come = [(None, after[key]) for key in after.keys() - before.keys()]
    found = _objects([*gone, *come], child.shape, contextual)
    found.sort(key=lambda diff: [_text(field) for field in diff.fields or ()])
    return _ordered(found)


def _identity(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def _listed(value: object) -> list[object]:
    if value is None:
        return []
    return list(value.values()) if isinstance(value, Mapping) else list(value)  # type: ignore[call-overload]


def _strings(old: object, new: object, child: ObjectField, contextual: bool) -> list[ObjectDiff]:
    """Shown unchanged too, inside an object that is shown: the walk asks only for those."""
    before, after = set(map(str, _listed(old))), set(map(str, _listed(new)))
    if not before and not after:
        return []
    if before == after and (not contextual or child.only_changes):
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


def _tree(old: object, new: object, child: ObjectField, contextual: bool) -> list[ObjectDiff]:
    if (old or None) == (new or None):
        return []
    leaf = free_form_text if child.kind is Matching.FREE_FORM else as_text
    before, after = flat_tree(old or {}, leaf), flat_tree(new or {}, leaf)
    fields = _fields(before, after, contextual)
    kind = _type(old or None, new or None, True)
    return [ObjectDiff(kind, child.shape.name, fields or None)]


def _ordered(objects: Iterable[ObjectDiff]) -> list[ObjectDiff]:
    """By insertion, as Nomad's are: `_before` may hold both ways, and then the later goes first."""
    found: list[ObjectDiff] = []
    for diff in objects:
        place = len(found)
        while place and _before(diff, found[place - 1]):
            place -= 1
        found.insert(place, diff)
    return found


def _before(diff: ObjectDiff, other: ObjectDiff) -> bool:
    """What is edited first, then what is new; alike ones where any field or part is less."""
    fields, others = diff.fields or [], other.fields or []
    rank, other_rank = (_RANK[diff.type], len(fields)), (_RANK[other.type], len(others))
    if rank != other_rank:
        return rank < other_rank
    if any(_text(one) < _text(another) for one, another in zip(fields, others, strict=True)):
        return True
    parts, other_parts = diff.objects or [], other.objects or []
    if len(parts) != len(other_parts):
        return len(parts) < len(other_parts)
    return any(_before(one, another) for one, another in zip(parts, other_parts, strict=True))


def _text(field: FieldDiff) -> tuple[str, str, str]:
    return (field.name, field.old, field.new)


_RANK: Mapping[str, int] = {
    DiffType.EDITED: 0,
    DiffType.ADDED: 1,
    DiffType.DELETED: 2,
    DiffType.NONE: 3,
}
_MATCH: Mapping[Matching, Callable[[object, object, ObjectField, bool], list[ObjectDiff]]] = {
    Matching.SINGLE: _single,
    Matching.KEYED: _keyed,
    Matching.SET: _set,
    Matching.STRINGS: _strings,
    Matching.TREE: _tree,
    Matching.FREE_FORM: _tree,
    Matching.PLACED: _placed,
    Matching.NAMED: _named,
    Matching.ALIKE: _alike,
}
