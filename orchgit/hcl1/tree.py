"""The tree of an HCL1 text; every node knows its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a named text; line and column begin with 1, columns count code points."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A scalar; `text` is what stands in the file, without quotes for strings and heredocs."""

    value: str | int | float | bool | None
    text: str
    position: Position


@dataclass(frozen=True, slots=True)
class ListValue:
    items: tuple[Value, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Key:
    """A key, or a label of a block."""

    text: str
    position: Position


@dataclass(frozen=True, slots=True)
class Hcl1Item:
    """`name = value` or a block `name "label" { ... }`; the language does not tell `name = { ... }`
    from a block, so a consumer asks for what it wants."""

    keys: tuple[Key, ...]
    value: Value

    @property
    def name(self) -> str:
        return self.keys[0].text

    @property
    def position(self) -> Position:
        return self.keys[0].position


@dataclass(frozen=True, slots=True)
class LabelledBlock:
    """A block with its label; `label` is None for one that has none."""

    label: Key | None
    body: Hcl1Body


@dataclass(frozen=True, slots=True)
class Hcl1Body:
    """The items between two braces, or of a whole file, in the order of the text."""

    items: tuple[Hcl1Item, ...]
    position: Position

    def named(self, name: str) -> tuple[Hcl1Item, ...]:
        """Returns every item with this name, in the order of the text."""
        return tuple(item for item in self.items if item.name == name)

    def blocks(self, name: str) -> tuple[Hcl1Body, ...]:
        """Returns the bodies of the blocks with this name.

        A label is one more level: `a "b" { c = 1 }` is `a { b { c = 1 } }`. A list of objects is
        several blocks. Values that are no objects are left out.
        """
        return tuple(body for item in self.named(name) for body in bodies_of(item, 1))

    def labelled(self, name: str) -> tuple[LabelledBlock, ...]:
        """Returns the blocks with this name and their labels.

        The label may be written as the only level below: `a { b { ... } }`, or in JSON
        `{"a": {"b": {...}}}`. A block with a scalar inside has no label.
        """
        found: list[LabelledBlock] = []
        for item in self.named(name):
            if len(item.keys) > 1:
                found += (LabelledBlock(item.keys[1], body) for body in bodies_of(item, 2))
                continue
            for body in bodies_of(item, 1):
                inner = [(one.keys[0], tuple(bodies_of(one, 1))) for one in body.items]
                if inner and all(bodies for _, bodies in inner):
                    found += (LabelledBlock(key, one) for key, bodies in inner for one in bodies)
                else:
                    found.append(LabelledBlock(None, body))
        return tuple(found)


Value = Literal | ListValue | Hcl1Body


def bodies_of(item: Hcl1Item, used_keys: int) -> Iterator[Hcl1Body]:
    """Yields the objects that an item holds; keys after the used ones become levels of objects."""
    values = item.value.items if isinstance(item.value, ListValue) else (item.value,)
    rest = item.keys[used_keys:]
    for value in values:
        if not isinstance(value, Hcl1Body):
            continue
        yield Hcl1Body((Hcl1Item(rest, value),), rest[0].position) if rest else value
