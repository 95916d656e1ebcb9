"""The parts of a parsed template. `at` is a part's place in the text; `str` gives its source."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """`kind` is string, number, bool or nil; a dot is none of them."""

    at: int
    kind: str
    text: str
    value: object

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Dot:
    at: int

    def __str__(self) -> str:
        return "."


@dataclass(frozen=True, slots=True)
class Field:
    """`.A.B` of the dot."""

    at: int
    path: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f".{name}" for name in self.path)


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name.A.B`; "$" alone is the root."""

    at: int
    name: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.name, *self.path))


@dataclass(frozen=True, slots=True)
class Chain:
    """`(expression).A.B`, or a function's name and fields."""

    at: int
    node: Argument
    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((_shown(self.node), *self.path))


@dataclass(frozen=True, slots=True)
class FunctionName:
    at: int
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TemplateCommand:
    """A value, or a function and its arguments."""

    at: int
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        return " ".join(map(_shown, self.arguments))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`$a, $b := command | command`; `assigns` is `=`."""

    at: int
    names: tuple[str, ...]
    assigns: bool
    commands: tuple[TemplateCommand, ...]

    def __str__(self) -> str:
        piped = " | ".join(map(str, self.commands))
        if not self.names:
            return piped
        return f"{', '.join(self.names)} {'=' if self.assigns else ':='} {piped}"


Argument = LiteralValue | Dot | Field | Variable | Chain | FunctionName | Pipeline


def _shown(node: Argument) -> str:
    return f"({node})" if isinstance(node, Pipeline) else str(node)


@dataclass(slots=True)
class Text:
    at: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class Output:
    at: int
    pipeline: Pipeline

    def __str__(self) -> str:
        return f"{{{{{self.pipeline}}}}}"


@dataclass(slots=True)
class ControlBlock:
    """`if`, `with` or `range`."""

    at: int
    kind: str
    pipeline: Pipeline
    body: list[TemplateNode] = field(default_factory=list)
    otherwise: list[TemplateNode] | None = None

    def __str__(self) -> str:
        return f"{{{{{self.kind} {self.pipeline}}}}}"


@dataclass(slots=True)
class Jump:
    """`break` or `continue`."""

    at: int
    kind: str

    def __str__(self) -> str:
        return f"{{{{{self.kind}}}}}"


@dataclass(slots=True)
class TemplateCall:
    """`template "name" pipeline`."""

    at: int
    name: str
    quoted: str
    pipeline: Pipeline | None

    def __str__(self) -> str:
        given = "" if self.pipeline is None else f" {self.pipeline}"
        return f"{{{{template {self.quoted}{given}}}}}"


TemplateNode = Text | Output | ControlBlock | Jump | TemplateCall
Node = TemplateNode | Argument | TemplateCommand
