"""HCL's JSON form: the same tree from a JSON document.

JSON does not say what is a block, so the caller's `BlockShape` does: which names are blocks, with
how many labels, and what is inside. Strings are templates; one with escapes is laid out again
behind the end of the text, so that its expressions have offsets too (`SourceText.lay_out`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json.decoder import JSONDecoder
from typing import Any, Protocol

from jobspec.errors import Diagnostics, HclError, SourceText
from jobspec.evaluation.numbers import NULL
from jobspec.hcl import literals
from jobspec.hcl.parser import parse_expression, parse_template
from jobspec.hcl.tree import (
    Attribute,
    Block,
    Body,
    Expression,
    Label,
    LiteralExpression,
    Object,
    Parens,
    Tuple,
)

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": NULL}
_MAX_DEPTH = 100
_STRINGS = JSONDecoder()


class BlockShape(Protocol):
    def block_shape(self, name: str) -> tuple[int, BlockShape] | None:
        """A block's number of labels and its inside, or None for an attribute."""
        ...

    def is_code(self, name: str) -> bool:
        """Whether the attribute's string is an expression itself, not a template."""
        ...


class _Value:
    """A JSON value with its range; `content` is a list of members, of items, or a scalar."""

    __slots__ = ("content", "end", "kind", "start")

    def __init__(self, kind: str, content: Any, start: int, end: int) -> None:
        self.kind = kind
        self.content = content
        self.start = start
        self.end = end


def parse_body(source: SourceText, shape: BlockShape, diagnostics: Diagnostics) -> Body:
    try:
        reader = _Reader(source)
        value = reader.document()
        return _TreeBuilder(source, value).body(value, shape)
    except HclError as error:
        diagnostics.add(error)
        return Body(0)


class _Reader:
    """Reads JSON with the offsets of its values."""

    def __init__(self, source: SourceText) -> None:
        self.text = source.text
        self.depth = 0

    def document(self) -> _Value:
        value = self.value(1 if self.text.startswith("\ufeff") else 0)
        end = self._skip(value.end)
        if end < len(self.text):
            raise HclError("Extraneous data after value: expected the end.", end, end + 1)
        return value

    def _skip(self, pos: int) -> int:
        m = _SPACE.match(self.text, pos)
        return m.end() if m else pos

    def value(self, pos: int) -> _Value:
        pos = self._skip(pos)
        char = self.text[pos : pos + 1]
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise HclError(f"Nesting too deep: more than {_MAX_DEPTH} levels.", pos, pos + 1)
        try:
            if char == "{":
                return self._members(pos)
            if char == "[":
                return self._items(pos)
            if char == '"':
                return self._string(pos)
            return self._scalar(pos)
        finally:
            self.depth -= 1

    def _string(self, pos: int) -> _Value:
        try:
            content, end = _STRINGS.raw_decode(self.text, pos)
        except ValueError as error:
            raise HclError(f"Invalid JSON string: {error}.", pos, pos + 1) from None
        return _Value("string", content, pos, end)

    def _scalar(self, pos: int) -> _Value:
        number = _NUMBER.match(self.text, pos)
        if number is not None:
            sign, digits = (-1, number[0][1:]) if number[0][0] == "-" else (1, number[0])
            try:
                return _Value("scalar", sign * literals.number(digits), pos, number.end())
            except OverflowError:
                raise HclError("Invalid number: it is too large.", pos, number.end()) from None
        for word, content in _WORDS.items():
            if self.text.startswith(word, pos):
                return _Value("scalar", content, pos, pos + len(word))
        raise HclError("Invalid JSON: expected a value.", pos, pos + 1)

    def _items(self, pos: int) -> _Value:
        items: list[_Value] = []
        at = self._skip(pos + 1)
        while self.text[at : at + 1] != "]":
            items.append(self.value(at))
            at = self._separator(items[-1].end, "]", pos)
        return _Value("array", items, pos, at + 1)

    def _members(self, pos: int) -> _Value:
        members: list[tuple[_Value, _Value]] = []
        at = self._skip(pos + 1)
        while self.text[at : at + 1] != "}":
            if self.text[at : at + 1] != '"':
                raise HclError("Invalid JSON: expected a property name in quotes.", at, at + 1)
            name = self._string(at)
            at = self._skip(name.end)
            if self.text[at : at + 1] != ":":
                raise HclError("Invalid JSON: expected a colon after the name.", at, at + 1)
            members.append((name, self.value(at + 1)))
            at = self._separator(members[-1][1].end, "}", pos)
        return _Value("object", members, pos, at + 1)

    def _separator(self, pos: int, closing: str, opened: int) -> int:
        at = self._skip(pos)
        char = self.text[at : at + 1]
        if char == closing:
            return at
        if char != ",":
            where = at if char else opened
            raise HclError(f'Invalid JSON: expected a comma or "{closing}".', where, where + 1)
        after = self._skip(at + 1)
        if self.text[after : after + 1] == closing:
            raise HclError("Invalid JSON: trailing comma.", at, at + 1)
        return after


class _TreeBuilder:
    def __init__(self, source: SourceText, root: _Value) -> None:
        self.source = source
        self.laid_out = source.lay_out(dict(_escaped_strings(root)))

    def body(self, value: _Value, shape: BlockShape) -> Body:
        body = Body(value.start)
        body.end = value.end - 1
        for each in value.content if value.kind == "array" else [value]:
            if each.kind != "object":
                raise HclError(
                    "Incorrect JSON value type: expected an object.", each.start, each.end
                )
            for name, member in each.content:
                self._member(body, name, member, shape)
        return body

    def _member(self, body: Body, name: _Value, member: _Value, shape: BlockShape) -> None:
        known = shape.block_shape(name.content)
        if known is not None and (member.content is NULL or name.content == "//"):
            return
        if known is None:
            if name.content == "//":
                return
            if member.kind == "string" and shape.is_code(name.content):
                start = self._laid_out(member)
                expr: Expression = parse_expression(
                    self.source.text, start, start + len(member.content)
                )
            else:
                expr = self.expression(member)
            if isinstance(expr, Object):
                expr = Parens(expr, expr.start, expr.end)
            body.attributes[name.content] = Attribute(name.content, expr, name.start, name.end)
            return
        labels, inner = known
        self._blocks(body, name, member, [], labels, inner)

    def _blocks(
        self,
        body: Body,
        name: _Value,
        value: _Value,
        labels: list[Label],
        missing: int,
        shape: BlockShape,
    ) -> None:
        if value.kind == "array":
            for item in value.content:
                self._blocks(body, name, item, labels, missing, shape)
        elif missing and value.kind == "object":
            for label, inner in value.content:
                named = [*labels, Label(label.content, label.start, label.end)]
                self._blocks(body, name, inner, named, missing - 1, shape)
        else:
            block = Block(
                name.content,
                labels,
                self.body(value, shape),
                name.start,
                name.end,
                name.end,
                value.start,
            )
            body.blocks.append(block)

    def expression(self, value: _Value) -> Expression:
        if value.kind == "string":
            return self._template(value)
        if value.kind == "array":
            return Tuple([self.expression(item) for item in value.content], value.start, value.end)
        if value.kind == "object":
            items = [
                (self._template(name), self.expression(member)) for name, member in value.content
            ]
            return Object(items, value.start, value.end)
        return LiteralExpression(value.content, value.start, value.end)

    def _template(self, value: _Value) -> Expression:
        text: str = value.content
        if "${" not in text and "%{" not in text:
            return LiteralExpression(literals.normal(text), value.start, value.end)
        start = self._laid_out(value)
        return parse_template(self.source.text, start, start + len(text))

    def _laid_out(self, value: _Value) -> int:
        """Returns the offset of the string's text without escapes."""
        text: str = value.content
        if value.end - value.start == len(text) + 2:
            return value.start + 1
        return self.laid_out[value.start]


def _escaped_strings(root: _Value) -> Iterator[tuple[int, str]]:
    """Yields the offset and the value of each string that contains escapes."""
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if value.kind == "string" and value.end - value.start != len(value.content) + 2:
            yield value.start, value.content
        elif value.kind == "array":
            waiting += value.content
        elif value.kind == "object":
            waiting += [each for pair in value.content for each in pair]
