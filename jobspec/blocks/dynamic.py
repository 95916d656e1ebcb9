"""`dynamic` blocks: one block for each item, with the iterator in its scope."""

from __future__ import annotations

from collections.abc import Iterator

from jobspec.errors import Diagnostics, HclError, did_you_mean
from jobspec.evaluation.evaluate import Scope, evaluate
from jobspec.evaluation.numbers import Null
from jobspec.evaluation.values import (
    ConvertError,
    SetOf,
    Value,
    elements,
    mapping,
    to_string,
    type_name_of,
)
from jobspec.hcl.tree import Attribute, Block, Body, Label, Traversal

_ATTRIBUTES = ("for_each", "iterator", "labels")


class ScopedBlock:
    """A block to decode, written as such or made by `dynamic`."""

    __slots__ = ("block", "body", "labels", "scope", "type")

    def __init__(
        self, type_: str, labels: list[Label], body: Body, scope: Scope, block: Block
    ) -> None:
        self.type = type_
        self.labels = labels
        self.body = body
        self.scope = scope
        self.block = block


def dynamic_type(block: Block, diagnostics: Diagnostics) -> str | None:
    """The type of block that a `dynamic` makes; None, reported, where it names none."""
    if len(block.labels) == 1:
        return block.labels[0].value
    if not block.labels:
        diagnostics.report(
            "Missing type for dynamic: all dynamic blocks must have 1 label (type).",
            block.open,
            block.open + 1,
        )
    else:
        extra = block.labels[1]
        diagnostics.report(
            "Extraneous label for dynamic: only 1 label (type) is expected.",
            extra.start,
            extra.end,
        )
    return None


def expand(block: Block, type_: str, labelled: bool, scope: Scope) -> Iterator[ScopedBlock]:
    """Yields the blocks; raises HclError for a mistake in the `dynamic` itself."""
    attributes = block.body.attributes
    _check_attributes(block, labelled)
    content = _content(block)
    iterator = _iterator(attributes.get("iterator"), type_)
    for key, value in _items(attributes["for_each"], scope):
        scope.budget.turn()
        inner = scope.inner({iterator: {"key": key, "value": value}})
        labels = _labels(attributes.get("labels"), inner)
        if labelled and not labels:
            raise HclError(
                f"Missing labels for {type_}: all {type_} blocks must have 1 label.",
                block.open,
                block.open + 1,
                hint="Add labels = [...] to the dynamic block.",
            )
        yield ScopedBlock(type_, labels, content.body, inner, block)


def _check_attributes(block: Block, labelled: bool) -> None:
    for name, attribute in block.body.attributes.items():
        if name not in _ATTRIBUTES or (name == "labels" and not labelled):
            raise HclError(
                f'Unsupported argument: an argument named "{name}" is not expected here.',
                attribute.start,
                attribute.end,
                did_you_mean(name, () if name in _ATTRIBUTES else _ATTRIBUTES),
            )
    if "for_each" not in block.body.attributes:
        raise HclError(
            'Missing required argument: the argument "for_each" is required.',
            block.open,
            block.open,
        )


def _content(block: Block) -> Block:
    contents = [inner for inner in block.body.blocks if inner.type == "content"]
    for inner in block.body.blocks:
        if inner.type != "content" or inner is not contents[0]:
            problem = "Duplicate content block" if inner.type == "content" else "Unsupported block"
            raise HclError(
                f"{problem}: a dynamic block holds one content block.", inner.start, inner.type_end
            )
    if not contents:
        raise HclError(
            "Insufficient content blocks: a dynamic block holds one content block.",
            block.open,
            block.open,
        )
    return contents[0]


def _iterator(attribute: Attribute | None, type_: str) -> str:
    if attribute is None:
        return type_
    expr = attribute.expr
    if isinstance(expr, Traversal) and not expr.steps:
        return expr.root
    raise HclError(
        "Invalid expression: a single variable name is required as the iterator.",
        expr.start,
        expr.end,
    )


def _items(attribute: Attribute, scope: Scope) -> Iterator[tuple[Value, Value]]:
    expr = attribute.expr
    collection = evaluate(expr, scope)
    if type(collection) is Null:
        raise HclError(
            "Invalid dynamic for_each value: cannot use a null value in for_each.",
            expr.start,
            expr.end,
        )
    pairs = mapping(collection)
    if pairs is not None:
        return iter([(key, pairs[key]) for key in sorted(pairs)])
    items = elements(collection)
    if items is None:
        raise HclError(
            f"Invalid dynamic for_each value: cannot use a {type_name_of(collection)} value "
            "in for_each; a list, set, map or object is required.",
            expr.start,
            expr.end,
        )
    if type(collection) is SetOf:
        return iter([(item, item) for item in items])
    return iter(enumerate(items))


def _labels(attribute: Attribute | None, scope: Scope) -> list[Label]:
    if attribute is None:
        return []
    expr = attribute.expr
    values = elements(evaluate(expr, scope))
    if values is None:
        raise HclError(
            "Invalid dynamic block labels: a list of strings is required.", expr.start, expr.end
        )
    try:
        return [Label(to_string(value), expr.start, expr.end) for value in values]
    except ConvertError as error:
        raise HclError(f"Invalid dynamic block label: {error}.", expr.start, expr.end) from None
