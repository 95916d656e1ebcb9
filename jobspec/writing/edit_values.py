"""Sets single values in a job file, and leaves every other byte as it was.

Only plain values are replaced. A value that is computed from a variable or a function is not: the
problem names what it is computed from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from jobspec.blocks.table import JOB, BlockTable
from jobspec.errors import Diagnostics, SourceText
from jobspec.hcl.format import format_text
from jobspec.hcl.tree import (
    Attribute,
    Body,
    Expression,
    LiteralExpression,
    Object,
    Parens,
    Traversal,
    Tuple,
    UnaryOperation,
    walk,
)
from jobspec.hcl.writer import INDENT, UnwritableError, expression, is_name, quoted
from jobspec.parse import read_body, source_text

_PLAIN = (LiteralExpression, Tuple, Object, Parens, UnaryOperation)


class Removed(Enum):
    """The value of an edit that removes the attribute."""

    REMOVED = "removed"


REMOVED = Removed.REMOVED


@dataclass(frozen=True, slots=True)
class ValueEdit:
    """One value to set. `path` leads from the job to an attribute or key by the names and labels of
    blocks, such as ("group", "web", "count"); of blocks without a label, `service[1]` is the second
    one. `value` is JSON-like, or REMOVED."""

    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class EditedFile:
    """The whole file, and why it could not be edited: with `problems` nothing was."""

    content: bytes
    problems: tuple[str, ...] = ()


class _CannotEdit(Exception):
    """Says why one value cannot be set."""


def edit_values(content: bytes, filename: str, edits: Sequence[ValueEdit]) -> EditedFile:
    """Returns the file with the values set, laid out by `fmt` if it was before.

    Whoever uses the result parses it first: a value may be of another type than its attribute.
    Raises JobFileErrors for a file that cannot be read.
    """
    source = source_text(content, filename)
    if source.text.lstrip("\ufeff \t\r\n").startswith("{"):
        return EditedFile(content, (f"{filename} is JSON",))
    was_formatted = format_text(source, Diagnostics(source)) == source.text
    problems = []
    for edit in edits:
        try:
            start, end, new = _change(source.text, _job_body(source), edit)
        except (_CannotEdit, UnwritableError) as error:
            problems.append(f"{'.'.join(edit.path)}: {error}")
        else:
            source = SourceText(source.name, source.text[:start] + new + source.text[end:])
    if problems:
        return EditedFile(content, tuple(problems))
    text = format_text(source, Diagnostics(source)) if was_formatted else source.text
    return EditedFile((text or source.text).encode())


def _job_body(source: SourceText) -> Body:
    diagnostics = Diagnostics(source)
    body = read_body(source, diagnostics)
    diagnostics.raise_if_any()
    jobs = [block for block in body.blocks if block.type == "job"]
    if len(jobs) != 1:
        raise _CannotEdit(f"the file has {len(jobs)} job blocks")
    return jobs[0].body


def _change(text: str, body: Body, edit: ValueEdit) -> tuple[int, int, str]:
    """Returns the range to replace, and by what."""
    table: BlockTable | None = JOB
    rest, depth = list(edit.path), 1
    while len(rest) > 1:
        name = rest[0]
        if name in body.attributes:
            return _change_in_object(text, body.attributes[name], rest[1:], edit.value)
        type_, _, place = name.partition("[")
        field = table.blocks.get(type_) if table is not None else None
        blocks = [block for block in body.blocks if block.type == type_]
        if field is None:
            raise _CannotEdit("it is not one plain value")
        has_label = field.how == "keyed" or bool(field.table and field.table.label_key)
        if has_label:
            blocks = [
                block for block in blocks if block.labels and block.labels[0].value == rest[1]
            ]
            rest = rest[1:]
        elif place:
            number = int(place.rstrip("]"))
            blocks = blocks[number : number + 1]
        rest = rest[1:]
        if not blocks and (has_label or place):
            raise _CannotEdit("it needs a new block")
        if not blocks:
            return _new_block(text, body, type_, rest, edit.value, depth)
        body, table = blocks[-1].body, field.table
        depth += 1
    if not rest:
        raise _CannotEdit("it is a whole block")
    known = body.attributes.get(rest[0])
    if known is None:
        return _inserted(text, body, rest[0], edit.value, depth)
    if edit.value is REMOVED:
        return _removed(text, known)
    return _replaced(known.expr, edit.value, depth)


def _change_in_object(
    text: str, attribute: Attribute, keys: Sequence[str], value: Any
) -> tuple[int, int, str]:
    """Changes a value of `env = { LEVEL = "info" }`."""
    node = attribute.expr
    for key in keys:
        if not isinstance(node, Object):
            raise _CannotEdit(_computed(node))
        found = [
            item
            for name, item in node.items
            if isinstance(name, LiteralExpression) and name.value == key
        ]
        if len(found) != 1:
            raise _CannotEdit(f"{attribute.name} has no value of that name yet")
        node = found[0]
    if value is REMOVED:
        raise _CannotEdit(f"it is a value inside of {attribute.name}")
    return _replaced(node, value, 0)


def _replaced(node: Expression, value: Any, depth: int) -> tuple[int, int, str]:
    if not all(isinstance(each, _PLAIN) for each in walk(node)):
        raise _CannotEdit(_computed(node))
    return node.start, node.end, expression(value, depth)


def _computed(node: Expression) -> str:
    names = sorted(
        {
            f"{each.root}.{each.steps[0].key}"
            for each in walk(node)
            if isinstance(each, Traversal) and each.steps
        }
    )
    return f"it is computed from {', '.join(names)}" if names else "it is computed"


def _removed(text: str, attribute: Attribute) -> tuple[int, int, str]:
    """Removes an attribute that has its lines for itself."""
    start = text.rfind("\n", 0, attribute.start) + 1
    end = text.find("\n", attribute.expr.end)
    before, after = text[start : attribute.start], text[attribute.expr.end : end]
    if end < 0 or before.strip() or after.strip():
        raise _CannotEdit("something else stands on its line")
    return start, end + 1, ""


def _inserted(text: str, body: Body, name: str, value: Any, depth: int) -> tuple[int, int, str]:
    """Adds an attribute at the end of the body's attributes."""
    if value is REMOVED:
        raise _CannotEdit("the file does not set it")
    last = max((each.expr.end for each in body.attributes.values()), default=body.start)
    at = text.find("\n", last) + 1
    if not at or at > body.end:
        raise _CannotEdit("its block is written on one line")
    key = name if is_name(name) else quoted(name)
    return at, at, f"{INDENT * depth}{key} = {expression(value, depth)}\n"


def _new_block(
    text: str, body: Body, type_: str, rest: Sequence[str], value: Any, depth: int
) -> tuple[int, int, str]:
    """Adds `meta { ... }` with one value at the end of a body."""
    if len(rest) != 1 or value is REMOVED:
        raise _CannotEdit("it needs a new block")
    at = text.rfind("\n", 0, body.end) + 1
    if text[at : body.end].strip() or at <= body.start:
        raise _CannotEdit("its block is written on one line")
    key = rest[0] if is_name(rest[0]) else quoted(rest[0])
    outer, inner = INDENT * depth, INDENT * (depth + 1)
    written = expression(value, depth + 1)
    return at, at, f"\n{outer}{type_} {{\n{inner}{key} = {written}\n{outer}}}\n"
