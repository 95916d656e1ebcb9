"""The parts of a parsed template."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LiteralValue:
    value: object


@dataclass(frozen=True, slots=True)
class Field:
    """`.A.B` of the dot, or of `$name` ("" is the dot, "$" the root)."""

    variable: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function and its arguments; a pipeline's earlier value comes last."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class FieldOf:
    """`(expression).A.B`."""

    value: Expression
    path: tuple[str, ...]


Expression = LiteralValue | Field | FunctionCall | FieldOf


@dataclass(frozen=True, slots=True)
class Assignment:
    """`$a := pipeline`, `$a = pipeline`, or none ("") around an expression."""

    names: tuple[str, ...]
    declares: bool
    value: Expression


@dataclass(slots=True)
class Text:
    text: str


@dataclass(slots=True)
class Output:
    pipeline: Assignment
    line: int


@dataclass(slots=True)
class ControlBlock:
    """`if`, `with` or `range`."""

    kind: str
    pipeline: Assignment
    line: int
    body: list[TemplateNode] = field(default_factory=list)
    otherwise: list[TemplateNode] = field(default_factory=list)


TemplateNode = Text | Output | ControlBlock
