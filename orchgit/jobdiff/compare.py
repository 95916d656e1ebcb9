"""The difference between two versions of a job, field by field, in Nomad's shape.

One generic walk; `shapes` lists the special cases. An object counts as edited when its two versions
are not equal, even if no field that is shown differs, unless its shape is plain.
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
    """Returns what changes from `old` to `new`; one of them may be None.

    `contextual` also shows the unchanged fields of edited objects. Raises InvalidInputError for
    two jobs of different ids.
    """
    if old is not None and new is not None and old.id != new.id:
        raise InvalidInputError(f"cannot compare job {old.id!r} with {new.id!r}: ids differ")
    named = new or old
    if named is None:
        return JobDiff(DiffType.NONE, "")
    fields = _fields(flat_fields(old, JOB_OMIT), flat_fields(new, JOB_OMIT), contextual=False)
    objects = _objects_of(old, new, JOB_OBJECTS, contextual)
    pairs = by_key(
        old.task_groups if old else (), new.task_groups if new else (), lambda group: group.name
    )
    groups = [_group(name, before, after, contextual) for name, before, after in pairs]
    changed = fields or objects or any(group.type != DiffType.NONE for group in groups)
    return JobDiff(
        _type(old, new, bool(changed)), named.id, fields or None, objects or None, groups or None
    )


def _group(
    name: str, old: TaskGroup | None, new: TaskGroup | None, contextual: bool
) -> TaskGroupDiff:
    old, new = completed(old), completed(new)
    omit = GROUP_OMIT if old and new else GROUP_OMIT | GROUP_OPTIONAL
    fields = _fields(flat_fields(old, omit), flat_fields(new, omit), contextual=False)
    objects = _objects_of(old, new, GROUP_OBJECTS, contextual)
    pairs = by_key(old.tasks if old else (), new.tasks if new else (), lambda task: task.name)
    tasks = [_task(task_name, before, after, contextual) for task_name, before, after in pairs]
    kind = _type(old, new, old != new)
    return TaskGroupDiff(kind, name, fields or None, objects or None, tasks or None)


def _task(name: str, old: Task | None, new: Task | None, contextual: bool) -> TaskDiff:
    fields = _fields(flat_fields(old, TASK_OMIT), flat_fields(new, TASK_OMIT), contextual=False)
    objects = _objects_of(old, new, TASK_OBJECTS, contextual)
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
    """An empty text counts as no value."""
    if before == after:
        return DiffType.NONE
    if not before:
        return DiffType.ADDED
    return DiffType.EDITED if after else DiffType.DELETED


def _objects_of(
    old: object, new: object, holders: Sequence[ObjectField], contextual: bool
) -> list[ObjectDiff]:
    """Returns the differences of the objects that the fields `holders` of a struct or map hold."""
    found: list[ObjectDiff] = []
    for holder in holders:
        before = None if old is None else get(old, holder.attribute)
        after = None if new is None else get(new, holder.attribute)
        found += _MATCH[holder.kind](before, after, holder, contextual and holder.contextual)
    return found


def _single(old: object, new: object, holder: ObjectField, contextual: bool) -> list[ObjectDiff]:
    if holder.always and contextual and old is None and new is None:
        return [ObjectDiff(DiffType.NONE, holder.shape.name)]
    return _objects([(old, new)], holder.shape, contextual)


def _objects(
    pairs: Iterable[tuple[object, object]], shape: ObjectShape, contextual: bool
) -> list[ObjectDiff]:
    """Returns the differences of the pairs of (old, new) that differ."""
    found = (_object(old, new, shape, contextual) for old, new in pairs if old != new)
    return [diff for diff in found if diff.type != DiffType.NONE]


def _object(old: object, new: object, shape: ObjectShape, contextual: bool) -> ObjectDiff:
    fields = _fields(_shown(old, shape), _shown(new, shape), contextual and not shape.brief)
    objects = _objects_of(old, new, shape.objects, contextual)
    kind = _type(old, new, True)
    if shape.plain:
        kinds = {each.type for each in fields} | {each.type for each in objects}
        kinds -= {DiffType.NONE}
        kind = DiffType.EDITED if kinds else DiffType.NONE
        if len(kinds) == 1:
            kind = DiffType(kinds.pop())
    return ObjectDiff(kind, shape.name, fields or None, objects or None)


def _shown(value: object, shape: ObjectShape) -> dict[str, str]:
    if value is None:
        return {}
    found = flat_fields(value, shape.omit, shape.template, shape.joined)
    return {shape.renamed.get(name, name): text for name, text in found.items()}


def _keyed(old: object, new: object, holder: ObjectField, contextual: bool) -> list[ObjectDiff]:
    """An object can be edited: its key says which old one it was."""
    before, after = _listed(old), _listed(new)
    pairs = [(one, other) for _, one, other in by_key(before, after, holder.key)]
    if holder.alone and len(before) == len(after) == 1:
        pairs = [(before[0], after[0])]
    return _ordered(_objects(pairs, holder.shape, contextual))


def _named(old: object, new: object, holder: ObjectField, contextual: bool) -> list[ObjectDiff]:
    """As `_keyed`; objects that were there come before new ones."""
    pairs = [(one, other) for _, one, other in by_key(_listed(old), _listed(new), holder.key)]
    pairs.sort(key=lambda pair: pair[0] is None)
    return _objects(pairs, holder.shape, contextual)


def _alike(old: object, new: object, holder: ObjectField, contextual: bool) -> list[ObjectDiff]:
    pairs = by_likeness(_listed(old), _listed(new))
    return _ordered(_objects(pairs, holder.shape, contextual))


def _placed(old: object, new: object, holder: ObjectField, contextual: bool) -> list[ObjectDiff]:
    pairs = zip_longest(_listed(old), _listed(new))
    return _ordered(_objects(pairs, holder.shape, contextual))


def _set(old: object, new: object, holder: ObjectField, contextual: bool) -> list[ObjectDiff]:
    encode = msgspec.msgpack.encode
    before = {encode(item): item for item in _listed(old)}
    after = {encode(item): item for item in _listed(new)}
    gone = [(before[key], None) for key in before.keys() - after.keys()]
    come = [(None, after[key]) for key in after.keys() - before.keys()]
    found = _objects([*gone, *come], holder.shape, contextual)
    found.sort(key=lambda diff: [_text(field) for field in diff.fields or ()])
    return _ordered(found)


def _listed(value: object) -> list[object]:
    if value is None:
        return []
    return list(value.values()) if isinstance(value, Mapping) else list(value)  # type: ignore[call-overload]


def _strings(old: object, new: object, holder: ObjectField, contextual: bool) -> list[ObjectDiff]:
    """A set of texts; inside an object that is shown, unchanged ones are shown too."""
    before, after = set(map(str, _listed(old))), set(map(str, _listed(new)))
    if not before and not after:
        return []
    if before == after and (not contextual or holder.only_changes):
        return []
    name = holder.shape.name
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


def _tree(old: object, new: object, holder: ObjectField, contextual: bool) -> list[ObjectDiff]:
    if (old or None) == (new or None):
        return []
    leaf = free_form_text if holder.kind is Matching.FREE_FORM else as_text
    before, after = flat_tree(old or {}, leaf), flat_tree(new or {}, leaf)
    fields = _fields(before, after, contextual)
    kind = _type(old or None, new or None, True)
    return [ObjectDiff(kind, holder.shape.name, fields or None)]


def _ordered(objects: Iterable[ObjectDiff]) -> list[ObjectDiff]:
    """Sorts by insertion, as Nomad does: `_before` may hold both ways, and then the later object
    comes first."""
    found: list[ObjectDiff] = []
    for diff in objects:
        place = len(found)
        while place and _before(diff, found[place - 1]):
            place -= 1
        found.insert(place, diff)
    return found


def _before(diff: ObjectDiff, other: ObjectDiff) -> bool:
    """Edited objects come before new ones; of two alike, the one with any lesser field or part."""
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
