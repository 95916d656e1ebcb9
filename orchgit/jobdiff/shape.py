"""What a special case of the report consists of; the cases themselves are in `shapes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class Matching(Enum):
    """How the old and the new value of a field are matched."""

    SINGLE = auto()
    """One object or none."""
    KEYED = auto()
    """A list of objects, matched by a key: an object can be edited."""
    NAMED = auto()
    """A map of objects."""
    ALIKE = auto()
    """A list of services, each matched with the one most like it."""
    SET = auto()
    """A list of objects without identity: what differs is one removed and one added."""
    STRINGS = auto()
    """A list of texts, compared as a set."""
    TREE = auto()
    """A map, flattened all the way down."""
    FREE_FORM = auto()
    """The same of a map that the job's author makes up."""
    PLACED = auto()
    """A list of objects, matched by their places in it."""


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """`name` is the report's; `omit` fields are not shown; `template` are fields always shown,
    `joined` are lists shown as one text. A `plain` object is what its shown fields are: a change
    of nothing shown is no change, and one that only gains fields is added, not edited."""

    name: str
    omit: frozenset[str] = frozenset()
    template: Mapping[str, str] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False
    brief: bool = False
    """Its unchanged fields are not shown, those of its parts are."""
    objects: tuple[ObjectField, ...] = ()


@dataclass(frozen=True, slots=True)
class ObjectField:
    """A field (attribute of a struct, or key of a map) that holds objects."""

    attribute: str
    kind: Matching
    shape: ObjectShape
    key: Callable[[object], str] = str
    alone: bool = False
    """Whether the only object of one side is the only one of the other, whatever its key."""
    only_changes: bool = False
    """Not shown where nothing changed, even inside an object that is shown."""
    always: bool = False
    """Shown, without content, where neither side has it."""
    contextual: bool = True
    """Whether its unchanged fields are shown."""


def get(value: object, path: str) -> object:
    """A field of a struct or a key of a map; `a.b` is the field `b` of the field `a`."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def by(name: str) -> Callable[[object], str]:
    return lambda value: str(get(value, name) or "")


def strings(attribute: str, name: str, only_changes: bool = False) -> ObjectField:
    return ObjectField(attribute, Matching.STRINGS, ObjectShape(name), only_changes=only_changes)
