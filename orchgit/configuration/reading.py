"""Reads the values of one configuration file by the table of keys, and tells every mistake."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchgit.configuration.bounds import problem_of
from orchgit.configuration.keys import BlockValues, ConfigBlock, ConfigKey, Kind, walk
from orchgit.durations import DurationError, parse_ns
from orchgit.go_quote import quote
from orchgit.hcl1.tree import Hcl1Body, Hcl1Item, ListValue, Literal, Position, Value, bodies_of


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """A mistake of a file: our sentence with the place, and Nomad's without.

    `rank` orders what Nomad would tell: it ends with values of a wrong kind (0), then with
    durations (1), then with unknown keys (2).
    """

    position: Position
    text: str
    nomad: str
    rank: int

    def __str__(self) -> str:
        return f"{self.position}: {self.text}"


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """A value that Nomad reads and no agent can use, and where it stands."""

    position: Position
    text: str
    path: str = ""
    """The key's, with labels; "" where it is in no table."""

    def __str__(self) -> str:
        return f"{self.position}: {self.text}"


class FileReader:
    """Collects the problems, faults and warnings of one file while its blocks are read."""

    def __init__(self, table: ConfigBlock) -> None:
        self._table = table
        self.problems: list[ConfigProblem] = []
        self.faults: list[Fault] = []
        self.warnings: list[str] = []
        self.places: dict[str, Position] = {}
        """Where each key and block stands, by its path with labels."""

    def block(self, shape: ConfigBlock, body: Hcl1Body, path: tuple[str, ...] = ()) -> BlockValues:
        """Returns the values of a body. Names of keys are compared without regard to case."""
        found = BlockValues()
        expected: dict[str, Hcl1Item] = {}
        unexpected: list[Hcl1Item] = []
        for item in body.items:
            name = item.name.lower()
            key = shape.keys.get(name)
            many = isinstance(key, ConfigBlock) and (key.labelled or key.repeated or key.joined)
            if key is None or (name in expected and not many):
                unexpected.append(item)
            else:
                expected.setdefault(name, item)
        self._unexpected(shape, unexpected, path)
        for name, item in expected.items():
            key = shape.keys[name]
            self.places[".".join((*path, name))] = item.position
            if isinstance(key, ConfigKey):
                self._value(found, key, item, (*path, name))
            else:
                self._block(found, key, body, item, (*path, name))
        return found

    def _block(
        self,
        found: BlockValues,
        shape: ConfigBlock,
        body: Hcl1Body,
        item: Hcl1Item,
        path: tuple[str, ...],
    ) -> None:
        name = path[-1]
        if isinstance(item.value, Literal):
            if item.value.value is not None:
                message = "not an object type for struct (*ast.LiteralType)"
                self._wrong(_WrongKindError(item.value, message), path, "a block, as { ... }")
            return
        if shape.labelled:
            named = found.labelled.setdefault(name, {})
            for one in body.labelled(item.name):
                if one.label is None:
                    text = f"{'.'.join(path)}: needs one label, its name"
                    self.problems.append(ConfigProblem(item.position, text, text, 0))
                    continue
                self.places[".".join((*path, one.label.text))] = one.label.position
                values = self.block(shape, one.body, (*path, one.label.text))
                earlier = named.get(one.label.text)
                if earlier is not None and not shape.replaced:
                    values = _joined(earlier, values)
                named[one.label.text] = values
        elif shape.repeated:
            named = found.labelled.setdefault(name, {})
            for one_body in body.blocks(item.name):
                values = self.block(shape, one_body, path)
                named[str(values.values.get("name") or "default")] = values
        else:
            values = BlockValues()
            for one_body in body.blocks(item.name):
                values = _joined(values, self.block(shape, one_body, path))
            found.blocks[name] = values

    def _value(
        self, found: BlockValues, key: ConfigKey, item: Hcl1Item, path: tuple[str, ...]
    ) -> None:
        value: Value = item.value
        if len(item.keys) > 1:
            value = next(bodies_of(item, 1), value)
        if isinstance(value, Literal) and value.value is None:
            return  # JSON's null
        try:
            read = _READERS[key.kind](value)
        except _WrongKindError as error:
            is_whole = error.value is value
            self._wrong(error, path, _WANTED[key.kind] if is_whole else _TEXT)
            return
        except DurationError:
            assert isinstance(value, Literal)
            shown = ".".join(path)
            # Nomad names this one key without its block.
            nomad = "gc_interval" if shown == "client.gc_interval" else shown
            self.problems.append(
                ConfigProblem(
                    value.position,
                    _must_be(path, _WANTED[key.kind], value),
                    f"{nomad} can't parse time duration {value.text}",
                    1,
                )
            )
            return
        found.values[path[-1]] = read
        wrong = "" if key.no_effect else problem_of(key_path(self._table, path), read)
        if wrong:
            shown = ".".join(path)
            self.places[shown] = value.position
            self.faults.append(Fault(value.position, f"cannot use {shown}: {wrong}", shown))

    def _wrong(self, error: _WrongKindError, path: tuple[str, ...], wanted: str) -> None:
        position = error.value.position
        place = f"At {position.line}:{position.column}: " if error.placed else ""
        name = f"{'.'.join(('root', *path))}: " if error.named else ""
        nomad = f"{place}{name}{error.message}"
        self.problems.append(ConfigProblem(position, _must_be(path, wanted, error.value), nomad, 0))

    def _unexpected(
        self, shape: ConfigBlock, unexpected: list[Hcl1Item], path: tuple[str, ...]
    ) -> None:
        if not unexpected:
            return
        block = ".".join(path)
        prefix = f"{'.'.join(reversed(path))} " if path else ""
        nomad = f"{prefix}unexpected keys {', '.join(item.name for item in unexpected)}"
        for item in unexpected:
            where = f" in {block}" if block else ""
            if item.name.lower() in shape.keys:
                text = f'"{item.name}"{where} is given twice; take one out'
            else:
                text = f'there is no key "{item.name}"{where}{self._hint(shape, item.name, block)}'
            if shape.strict or item.name.lower() in shape.keys:
                self.problems.append(ConfigProblem(item.position, text, nomad, 2))
            elif not shape.no_effect:  # else the whole block is named as one without effect
                self.warnings.append(f"{item.position}: {text}")

    def _hint(self, shape: ConfigBlock, name: str, block: str) -> str:
        """Returns the nearest name in the same block, or the block that has a key of this name."""
        near = difflib.get_close_matches(name.lower(), shape.keys, 1, 0.7)
        if near:
            return f'; did you mean "{near[0]}"?'
        homes = [path.rpartition(".")[0] for path, _ in walk(self._table)]
        names = [path.rpartition(".")[2] for path, _ in walk(self._table)]
        there = [home for home, one in zip(homes, names, strict=True) if one == name.lower()]
        if len(there) == 1 and there[0] != block:
            return f"; it belongs into {there[0] or 'the top of the file'}"
        return ""


class _WrongKindError(Exception):
    """A value is not of the key's kind; the message is that of HashiCorp's decoder, which tells the
    place and the name of the key with some messages only."""

    def __init__(
        self, value: Value, message: str, *, placed: bool = True, named: bool = True
    ) -> None:
        super().__init__(message)
        self.value = value
        self.message = message
        self.placed = placed
        self.named = named


def _must_be(path: Sequence[str], wanted: str, value: Value) -> str:
    """Returns the sentence about a value of a wrong kind."""
    if isinstance(value, Literal):
        shown = quote(value.text) if isinstance(value.value, str) else value.text
    else:
        shown = "a list" if isinstance(value, ListValue) else "a block"
    return f"cannot use {'.'.join(path)}: it must be {wanted}, not {shown}"


def key_path(table: ConfigBlock, path: Sequence[str]) -> str:
    """Returns the path of a key in the table: without the labels of blocks, with dots between."""
    names: list[str] = []
    parts = iter(path)
    for name in parts:
        names.append(name)
        key = table.keys[name]
        if isinstance(key, ConfigBlock):
            table = key
            if key.labelled:
                next(parts, None)
    return ".".join(names)


def _joined(one: BlockValues, other: BlockValues) -> BlockValues:
    return BlockValues(
        {**one.values, **other.values},
        {**one.blocks, **other.blocks},
        {**one.labelled, **other.labelled},
    )


def _literal(value: Value, kind: str) -> Literal:
    if isinstance(value, Literal):
        return value
    shape = "*ast.ListType" if isinstance(value, ListValue) else "*ast.ObjectType"
    of_kind = "for string " if kind == "string" else ""
    raise _WrongKindError(value, f"unknown type {of_kind}{shape}")


def _text(value: Value) -> str:
    literal = _literal(value, "string")
    if isinstance(literal.value, bool | float):
        raise _WrongKindError(value, "unknown type for string *ast.LiteralType")
    return literal.text


def _integer(value: Value) -> int:
    literal = _literal(value, "number")
    if isinstance(literal.value, bool | float):
        raise _WrongKindError(value, "unknown type *ast.LiteralType")
    try:
        return int(literal.text, 0)
    except ValueError:
        message = f'strconv.ParseInt: parsing "{literal.text}": invalid syntax'
        raise _WrongKindError(value, message, placed=False, named=False) from None


def _number(value: Value) -> float:
    literal = _literal(value, "number")
    try:
        return float(literal.text)
    except ValueError:
        message = f'strconv.ParseFloat: parsing "{literal.text}": invalid syntax'
        raise _WrongKindError(value, message, placed=False, named=False) from None


def _switch(value: Value) -> bool:
    literal = _literal(value, "bool")
    text = literal.text.lower()
    if text in ("1", "true"):
        return True
    if text in ("0", "false"):
        return False
    shown = f'"{literal.text}"' if isinstance(literal.value, str) else literal.text
    message = f"decodeBool: Unknown value for boolean: {shown}"
    raise _WrongKindError(value, message, placed=False, named=False)


def _duration(value: Value) -> str:
    text = _text(value)
    parse_ns(text)
    return text


def _texts(value: Value) -> list[str]:
    if not isinstance(value, ListValue):
        shape = "*ast.LiteralType" if isinstance(value, Literal) else "*ast.ObjectType"
        raise _WrongKindError(value, f"unknown slice type: {shape}", named=False)
    return [_text(item) for item in value.items]


def _map(value: Value) -> dict[str, str]:
    bodies = [value] if isinstance(value, Hcl1Body) else []
    if isinstance(value, ListValue):
        bodies = [item for item in value.items if isinstance(item, Hcl1Body)]
    elif not bodies:
        raise _WrongKindError(value, "not an object type for map (*ast.LiteralType)")
    return {item.name: _text(item.value) for body in bodies for item in body.items}


def plain_value(value: Value) -> Any:
    """Returns plain values; a key that is given several times is a list of its values."""
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, ListValue):
        return [plain_value(item) for item in value.items]
    found: dict[str, Any] = {}
    for name, values in _grouped(value):
        found[name] = values[0] if len(values) == 1 else values
    return found


def _grouped(body: Hcl1Body) -> Iterator[tuple[str, list[Any]]]:
    for name in dict.fromkeys(item.name for item in body.items):
        values = []
        for item in body.named(name):
            inner = next(bodies_of(item, 1), None) if len(item.keys) > 1 else None
            values.append(plain_value(inner if inner is not None else item.value))
        yield name, values


def _one_object(value: Value) -> Any:
    """Returns an object; JSON may have it as a list with one object."""
    read = plain_value(value)
    return read[0] if isinstance(read, list) and len(read) == 1 else read


_READERS: dict[Kind, Callable[[Value], Any]] = {
    Kind.TEXT: _text,
    Kind.INTEGER: _integer,
    Kind.GIVEN_INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.SWITCH: _switch,
    Kind.GIVEN_SWITCH: _switch,
    Kind.DURATION: _duration,
    Kind.DURATION_TEXT: _duration,
    Kind.TEXTS: _texts,
    Kind.REPLACED_TEXTS: _texts,
    Kind.MAP: _map,
    Kind.ANY: _one_object,
}
_TEXT = 'a text, as "a"'
_INTEGER = "a whole number"
_SWITCH = "true or false"
_DURATION = 'a duration, as "30s"'
_TEXTS = 'a list of texts, as ["a"]'
_WANTED: dict[Kind, str] = {
    Kind.TEXT: _TEXT,
    Kind.INTEGER: _INTEGER,
    Kind.GIVEN_INTEGER: _INTEGER,
    Kind.NUMBER: "a number",
    Kind.SWITCH: _SWITCH,
    Kind.GIVEN_SWITCH: _SWITCH,
    Kind.DURATION: _DURATION,
    Kind.DURATION_TEXT: _DURATION,
    Kind.TEXTS: _TEXTS,
    Kind.REPLACED_TEXTS: _TEXTS,
    Kind.MAP: 'texts by name, as { a = "b" }',
    Kind.ANY: "a block",
}
"""What people are told that a value of the kind is."""
