"""Renders a parsed template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.functions import GO_FUNCTIONS, Function, text_of, truth
from orchgit.go_templates.parse import parse
from orchgit.go_templates.tree import (
    Assignment,
    ControlBlock,
    Expression,
    Field,
    FieldOf,
    FunctionCall,
    LiteralValue,
    Output,
    TemplateNode,
    Text,
)

MAX_OUTPUT_BYTES = 16 << 20
MAX_STEPS = 3_000_000


def render(
    text: str,
    data: object = None,
    *,
    functions: Mapping[str, Function] | None = None,
    budget: StepBudget | None = None,
    delimiters: tuple[str, str] = ("{{", "}}"),
    err_missing_key: bool = False,
    max_bytes: int = MAX_OUTPUT_BYTES,
) -> str:
    """The template `text` rendered with `data` as its dot.

    `functions` are known beside Go's own. With `err_missing_key` a map without the key is an error
    instead of "<no value>". Raises InvalidInputError naming the line or the limit.
    """
    left, right = delimiters
    try:
        known = {**GO_FUNCTIONS, **(functions or {})}
        run = _Run(known, err_missing_key, budget or StepBudget(MAX_STEPS), max_bytes)
        run.render(parse(text, left or "{{", right or "}}"), data)
        return "".join(run.out)
    except RecursionError:
        raise InvalidInputError("cannot render the template: it is nested too deeply") from None


class _Run:
    """One rendering. Variables live in a chain of scopes, one per block."""

    def __init__(
        self,
        known: Mapping[str, Function],
        err_missing_key: bool,
        budget: StepBudget,
        max_bytes: int,
    ) -> None:
        self._functions = known
        self._err_missing_key = err_missing_key
        self._scopes: list[dict[str, Any]] = [{}]
        self._budget = budget
        self._max_bytes = self._bytes_left = max_bytes
        self.out: list[str] = []

    def render(self, nodes: list[TemplateNode], data: Any) -> None:
        self._scopes[0]["$"] = data
        self._nodes(nodes, data)

    def _nodes(self, nodes: list[TemplateNode], dot: Any) -> None:
        for node in nodes:
            self._budget.spend()
            match node:
                case Text(text=text):
                    self._write(text)
                case Output(pipeline=pipeline, line=line):
                    value = self._pipeline(pipeline, dot, line)
                    if not pipeline.names:
                        self._write(text_of(value))
                case ControlBlock():
                    self._block(node, dot)

    def _write(self, text: str) -> None:
        self._bytes_left -= len(text) if text.isascii() else len(text.encode(errors="replace"))
        if self._bytes_left < 0:
            raise InvalidInputError(
                f"cannot render the template: over {self._max_bytes} bytes, the limit of templates"
            )
        self.out.append(text)

    def _block(self, block: ControlBlock, dot: Any) -> None:
        self._scopes.append({})
        try:
            if block.kind == "range":
                self._range(block, dot)
                return
            value = self._pipeline(block.pipeline, dot, block.line)
            if truth(value):
                self._nodes(block.body, value if block.kind == "with" else dot)
            else:
                self._nodes(block.otherwise, dot)
        finally:
            self._scopes.pop()

    def _range(self, block: ControlBlock, dot: Any) -> None:
        values = self._evaluate(block.pipeline.value, dot, block.line)
        empty = True
        for key, value in _items(values, block.line):
            empty = False
            self._budget.spend()
            names = block.pipeline.names
            if len(names) == 1:
                self._scopes[-1][names[0]] = value
            elif names:
                self._scopes[-1] |= {names[0]: key, names[1]: value}
            self._nodes(block.body, value)
        if empty:
            self._nodes(block.otherwise, dot)

    def _pipeline(self, pipeline: Assignment, dot: Any, line: int) -> Any:
        value = self._evaluate(pipeline.value, dot, line)
        for name in pipeline.names:
            scope = self._scopes[-1] if pipeline.declares else self._scope_of(name, line)
            scope[name] = value
        return value

    def _evaluate(self, expression: Expression, dot: Any, line: int) -> Any:
        self._budget.spend()
        match expression:
            case LiteralValue(value=value):
                return value
            case Field(variable=variable, path=path):
                base = self._scope_of(variable, line)[variable] if variable else dot
                return self._walk(base, path, line)
            case FieldOf(value=inner, path=path):
                return self._walk(self._evaluate(inner, dot, line), path, line)
            case FunctionCall():
                return self._call(expression, dot, line)

    def _call(self, call: FunctionCall, dot: Any, line: int) -> Any:
        function = self._functions.get(call.name)
        if function is None:
            raise _error(line, f'function "{call.name}" is not known')
        arguments = [self._evaluate(argument, dot, line) for argument in call.arguments]
        try:
            for argument in arguments:
                self._budget.spend_on(argument)
            result = function(*arguments)
            self._budget.spend_on(result)
            return result
        except InvalidInputError as error:
            raise _error(line, str(error)) from None
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise _error(line, f"{call.name}: {error}") from None

    def _walk(self, value: Any, path: tuple[str, ...], line: int) -> Any:
        for name in path:
            if isinstance(value, Mapping) and name in value:
                value = value[name]
            elif self._err_missing_key or not isinstance(value, Mapping):
                raise _error(line, f'there is no "{name}"')
            else:
                return None
        return value

    def _scope_of(self, name: str, line: int) -> dict[str, Any]:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope  # type: ignore[no-any-return]
        raise _error(line, f'variable "{name}" is not defined')


def _items(values: Any, line: int) -> Iterator[tuple[Any, Any]]:
    if isinstance(values, Mapping):
        return iter([(key, values[key]) for key in sorted(values)])
    if isinstance(values, list):
        return enumerate(values)
    if values is None:
        return iter(())
    raise _error(line, f"cannot range over {text_of(values)}")


def _error(line: int, what: str) -> InvalidInputError:
    return InvalidInputError(f"cannot render the template: line {line}: {what}")
