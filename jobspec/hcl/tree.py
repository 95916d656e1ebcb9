"""The syntax tree. Every node carries its range as offsets into the text (`start`, `end`).

Nodes are built by the thousand per file, so they are plain slotted classes without validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class Expression:
    __slots__ = ("end", "start")
    start: int
    end: int


class LiteralExpression(Expression):
    """A number, bool, null or string known when it was read."""

    __slots__ = ("value",)

    def __init__(self, value: Any, start: int, end: int) -> None:
        self.value = value
        self.start = start
        self.end = end


class TemplateExpression(Expression):
    """Parts that are joined into one string."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Expression], start: int, end: int) -> None:
        self.parts = parts
        self.start = start
        self.end = end


class TemplateWrap(Expression):
    """A template of one interpolation and nothing else: the value keeps its type."""

    __slots__ = ("inner",)

    def __init__(self, inner: Expression, start: int, end: int) -> None:
        self.inner = inner
        self.start = start
        self.end = end


class TemplateJoin(Expression):
    """`%{ for }`: the strings of a for-expression, joined."""

    __slots__ = ("loop",)

    def __init__(self, loop: For, start: int, end: int) -> None:
        self.loop = loop
        self.start = start
        self.end = end


class Step:
    """`.name` or `[literal]` after something."""

    __slots__ = ("end", "is_attr", "key", "start")

    def __init__(self, is_attr: bool, key: Any, start: int, end: int) -> None:
        self.is_attr = is_attr
        self.key = key
        self.start = start
        self.end = end


class Traversal(Expression):
    """A name from the scope and the steps after it."""

    __slots__ = ("root", "root_end", "steps")

    def __init__(self, root: str, steps: list[Step], start: int, end: int) -> None:
        self.root = root
        self.steps = steps
        self.start = start
        self.end = end
        self.root_end = end


class Relative(Expression):
    """Steps after any other expression."""

    __slots__ = ("source", "steps")

    def __init__(self, source: Expression, steps: list[Step], start: int, end: int) -> None:
        self.source = source
        self.steps = steps
        self.start = start
        self.end = end


class Index(Expression):
    """`collection[key]` where the key is not a literal."""

    __slots__ = ("collection", "key", "open")

    def __init__(
        self, collection: Expression, key: Expression, open_: int, start: int, end: int
    ) -> None:
        self.collection = collection
        self.key = key
        self.open = open_
        self.start = start
        self.end = end


class Splat(Expression):
    """`source[*]...`: `each` is the expression of one item, an `Item` at its root."""

    __slots__ = ("each", "item", "source")

    def __init__(
        self, source: Expression, each: Expression, item: Item, start: int, end: int
    ) -> None:
        self.source = source
        self.each = each
        self.item = item
        self.start = start
        self.end = end


class Item(Expression):
    """The item a splat is at."""

    __slots__ = ()

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class CallExpression(Expression):
    __slots__ = ("args", "close", "expand", "name", "name_end")

    def __init__(
        self, name: str, args: list[Expression], expand: bool, name_end: int, start: int, end: int
    ) -> None:
        self.name = name
        self.args = args
        self.expand = expand
        self.name_end = name_end
        self.close = end - 1
        self.start = start
        self.end = end


class Conditional(Expression):
    __slots__ = ("condition", "no", "yes")

    def __init__(
        self, condition: Expression, yes: Expression, no: Expression, start: int, end: int
    ) -> None:
        self.condition = condition
        self.yes = yes
        self.no = no
        self.start = start
        self.end = end


class BinaryOperation(Expression):
    __slots__ = ("left", "op", "right")

    def __init__(self, op: str, left: Expression, right: Expression) -> None:
        self.op = op
        self.left = left
        self.right = right
        self.start = left.start
        self.end = right.end


class UnaryOperation(Expression):
    __slots__ = ("op", "operand")

    def __init__(self, op: str, operand: Expression, start: int) -> None:
        self.op = op
        self.operand = operand
        self.start = start
        self.end = operand.end


class Parens(Expression):
    __slots__ = ("inner",)

    def __init__(self, inner: Expression, start: int, end: int) -> None:
        self.inner = inner
        self.start = start
        self.end = end


class Tuple(Expression):
    __slots__ = ("items",)

    def __init__(self, items: list[Expression], start: int, end: int) -> None:
        self.items = items
        self.start = start
        self.end = end


class Object(Expression):
    """Keys that are bare names are `LiteralExpression`s already."""

    __slots__ = ("items",)

    def __init__(self, items: list[tuple[Expression, Expression]], start: int, end: int) -> None:
        self.items = items
        self.start = start
        self.end = end


class ForIntro(NamedTuple):
    """`k, v in collection`; `key_name` is "" where there is only one name."""

    key_name: str
    value_name: str
    collection: Expression


class For(Expression):
    """`[for k, v in coll : value if cond]` or, with `key`, the object form."""

    __slots__ = (
        "collection", "condition", "group", "key", "key_name", "value", "value_name",
    )  # fmt: skip

    def __init__(
        self,
        intro: ForIntro,
        key: Expression | None,
        value: Expression,
        condition: Expression | None,
        group: bool,
        start: int,
        end: int,
    ) -> None:
        self.key_name, self.value_name, self.collection = intro
        self.key = key
        self.value = value
        self.condition = condition
        self.group = group
        self.start = start
        self.end = end


def start_of(node: Expression, text: str) -> int:
    """Where an operand is pointed at: inside the quotes of a string, behind those of an empty one,
    at an index's bracket."""
    if isinstance(node, LiteralExpression):
        if text.startswith('""', node.start):
            return node.start + 2
        return node.start + 1 if text[node.start : node.start + 1] == '"' else node.start
    if isinstance(node, TemplateExpression) and node.parts:
        return start_of(node.parts[0], text)
    if isinstance(node, BinaryOperation):
        return start_of(node.left, text)
    if isinstance(node, Conditional):
        return start_of(node.condition, text)
    return node.open if isinstance(node, Index) else node.start


def walk(node: object) -> Iterator[Expression]:
    """The node and all nodes below it."""
    if isinstance(node, Expression):
        yield node
        for kind in type(node).__mro__:
            for slot in getattr(kind, "__slots__", ()):
                yield from walk(getattr(node, slot, None))
    elif isinstance(node, (list, tuple)):
        for item in node:
            yield from walk(item)


class Attribute:
    """`name = expr`; the range is the name's."""

    __slots__ = ("end", "expr", "name", "start")

    def __init__(self, name: str, expr: Expression, start: int, end: int) -> None:
        self.name = name
        self.expr = expr
        self.start = start
        self.end = end


class Label:
    __slots__ = ("end", "start", "value")

    def __init__(self, value: str, start: int, end: int) -> None:
        self.value = value
        self.start = start
        self.end = end


class Body:
    """Attributes by name and blocks in order; `end` is the offset of the closing brace."""

    __slots__ = ("attributes", "blocks", "end", "start")

    def __init__(self, start: int) -> None:
        self.attributes: dict[str, Attribute] = {}
        self.blocks: list[Block] = []
        self.start = start
        self.end = start


class Block:
    """`type "label" { ... }`; `start` and `end` span the header, `open` is the brace."""

    __slots__ = ("body", "end", "labels", "open", "start", "type", "type_end")

    def __init__(
        self,
        type_: str,
        labels: list[Label],
        body: Body,
        start: int,
        type_end: int,
        end: int,
        open_: int,
    ) -> None:
        self.type = type_
        self.labels = labels
        self.body = body
        self.start = start
        self.type_end = type_end
        self.end = end
        self.open = open_
