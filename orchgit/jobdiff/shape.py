"""The types of the special cases of the report; the cases themselves are in `shapes`."""

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
    """As TREE, for a map whose keys and values the author of the job chooses."""
    PLACED = auto()
    """A list of objects, matched by their positions."""


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """How an object is reported.

    `name` is its name in the report. Fields in `omit` are not shown, fields in `template` always
    are; lists in `joined` are shown as one text. A `plain` object changes only when a shown field
    does, and one that only gains fields counts as added, not edited.
    """

    name: str
    omit: frozenset[str] = frozenset()
    template: Mapping[str, str] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False
    brief: bool = False
    """Its own unchanged fields are not shown; those of the objects in it are."""
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
