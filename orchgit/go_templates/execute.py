"""Executes a parsed template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote
from orchgit.go_templates.arguments import (
    RefusedArgument,
    checked_argument,
    literal_argument,
    literal_value,
)
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.errors import LimitError, TemplateError
from orchgit.go_templates.functions import ANY, GO_FUNCTIONS, GoFunction, call, fn
from orchgit.go_templates.parse import Parsed
from orchgit.go_templates.printing import formatted, is_printable, text_of
from orchgit.go_templates.tree import (
    Argument,
    Chain,
    ControlBlock,
    Dot,
    Field,
    FunctionName,
    Jump,
    LiteralValue,
    Node,
    Output,
    Pipeline,
    TemplateCall,
    TemplateCommand,
    TemplateNode,
    Text,
    Variable,
)
from orchgit.go_templates.values import (
    INVALID,
    GoStruct,
    items_of,
    truth,
    type_name,
    zero_element,
)

_MAX_DEPTH = 100
_NO_VALUE: Any = object()
"""No value comes from the pipeline's earlier part."""


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Execution:
    """One rendering of a parsed template with `known` functions; `out` is the text.

    `_node` is the part of the template that errors name."""

    def __init__(
        self,
        parsed: Parsed,
        known: Mapping[str, GoFunction],
        err_missing_key: bool,
        budget: StepBudget,
        max_bytes: int,
    ) -> None:
        self.out: list[str] = []
        self._parsed = parsed
        self._functions = known
        self._err_missing_key = err_missing_key
        self._budget = budget
        self._left_bytes = max_bytes
        self._max_bytes = max_bytes
        self._variables: list[tuple[str, Any]] = []
        self._name = ""
        self._node: Node | None = None
        self._depth = 0

    def template(self, name: str, data: Any) -> None:
        """Renders one of the parsed templates."""
        outer_variables, outer_name = self._variables, self._name
        self._variables, self._name = [("$", data)], name
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise LimitError(f"templates call each other more than {_MAX_DEPTH} deep, the limit")
        self._walk_all(self._parsed.templates[name], data)
        self._depth -= 1
        self._variables, self._name = outer_variables, outer_name

    def _fail(self, message: str) -> NoReturn:
        name = self._name
        if self._node is None:
            raise TemplateError("execute", f"template: {name}: {message}")
        place = self._parsed.place(self._node.at)
        raise TemplateError(
            "execute",
            f"template: :{place}: executing {quote(name)} at <{self._node}>: {message}",
        )

    # -- nodes -------------------------------------------------------------------------------------

    def _walk_all(self, nodes: list[TemplateNode], dot: Any) -> None:
        for node in nodes:
            self._walk(node, dot)

    def _walk(self, node: TemplateNode, dot: Any) -> None:
        self._budget.spend()
        self._node = node
        match node:
            case Text():
                self._write(node.text)
            case Output():
                value = self._pipeline(node.pipeline, dot)
                if not node.pipeline.names:
                    self._node = node
                    self._print(value)
            case ControlBlock(kind="range"):
                self._range(node, dot)
            case ControlBlock():
                self._condition(node, dot)
            case Jump():
                raise _Break if node.kind == "break" else _Continue
            case TemplateCall():
                if node.name not in self._parsed.templates:
                    self._fail(f"template {quote(node.name)} not defined")
                given = INVALID if node.pipeline is None else self._pipeline(node.pipeline, dot)
                self.template(node.name, given)

    def _print(self, value: Any) -> None:
        if not is_printable(value):
            self._fail(f"can't print {self._node} of type {type_name(value)}")
        text = text_of(value)
        self._budget.spend_on(text)
        self._write(text)

    def _write(self, text: str) -> None:
        self._left_bytes -= len(text)
        if self._left_bytes < 0:
            raise LimitError(f"it gives over {self._max_bytes} bytes, the limit of templates")
        self.out.append(text)

    def _condition(self, block: ControlBlock, dot: Any) -> None:
        mark = len(self._variables)
        value = self._pipeline(block.pipeline, dot)
        if truth(value):
            self._walk_all(block.body, value if block.kind == "with" else dot)
        elif block.otherwise is not None:
            self._walk_all(block.otherwise, dot)
        del self._variables[mark:]

    def _range(self, block: ControlBlock, dot: Any) -> None:
        mark = len(self._variables)
        values = self._pipeline(block.pipeline, dot)
        inner = len(self._variables)
        names, empty = block.pipeline.names, True
        items = items_of(values)
        if items is None:
            self._fail(f"range can't iterate over {formatted(values)}")
        if len(names) > 1 and isinstance(values, int):
            self._fail(f"can't use {formatted(values)} to iterate over more than one variable")
        for key, value in items:
            self._budget.spend()
            empty = False
            if len(names) == 1:
                given: tuple[Any, ...] = (value,)
            else:
                given = (key, value)
            for offset, (name, part) in enumerate(zip(names, given, strict=False)):
                if block.pipeline.assigns:
                    self._assign(name, part)
                else:
                    self._variables[inner - len(names) + offset] = (name, part)
            try:
                self._walk_all(block.body, value)
            except _Continue:
                pass
            except _Break:
                break
            finally:
                del self._variables[inner:]
        if empty and block.otherwise is not None:
            self._walk_all(block.otherwise, dot)
        del self._variables[mark:]

    # -- pipelines ---------------------------------------------------------------------------------

    def _pipeline(self, pipeline: Pipeline, dot: Any) -> Any:
        self._node = pipeline
        value = _NO_VALUE
        for command in pipeline.commands:
            value = self._command(command, dot, value)
            if value is None:
                value = INVALID
        for name in pipeline.names:
            if pipeline.assigns:
                self._assign(name, value)
            else:
                self._variables.append((name, value))
        return value

    def _assign(self, name: str, value: Any) -> None:
        for position in range(len(self._variables) - 1, -1, -1):
            if self._variables[position][0] == name:
                self._variables[position] = (name, value)
                return
        self._fail(f"undefined variable: {name}")

    def _command(self, command: TemplateCommand, dot: Any, final: Any) -> Any:
        self._budget.spend()
        first = command.arguments[0]
        match first:
            case FunctionName():
                return self._function(first, command, dot, command.arguments[1:], final)
            case Field() | Variable() | Chain():
                return self._fields(first, dot, command.arguments[1:], final)
        if isinstance(first, Pipeline):
            self._refuse_arguments(command, final)
            return self._pipeline(first, dot)
        self._node = first
        self._refuse_arguments(command, final)
        if isinstance(first, LiteralValue) and first.kind == "nil":
            self._fail("nil is not a command")
        return self._plain(first, dot)

    def _refuse_arguments(self, command: TemplateCommand, final: Any) -> None:
        if len(command.arguments) > 1 or final is not _NO_VALUE:
            self._fail(f"can't give argument to non-function {command.arguments[0]}")

    def _plain(self, node: Argument, dot: Any) -> Any:
        if isinstance(node, Dot):
            return dot
        assert isinstance(node, LiteralValue)
        return self._refusing(literal_value, node)

    def _variable(self, name: str) -> Any:
        for known, value in reversed(self._variables):
            if known == name:
                return value
        self._fail(f"undefined variable: {name}")

    def _fields(
        self,
        node: Field | Variable | Chain,
        dot: Any,
        arguments: tuple[Argument, ...],
        final: Any,
    ) -> Any:
        """The value of a chain of fields, the last of which may be a method with arguments."""
        self._node = node
        if isinstance(node, Field):
            receiver = dot
        elif isinstance(node, Variable):
            receiver = self._variable(node.name)
            if not node.path:
                if arguments or final is not _NO_VALUE:
                    self._fail(f"can't give argument to non-function {node}")
                return receiver
        else:
            receiver = self._argument(node.node, dot, None)
        *path, last = node.path
        for name in path:
            receiver = self._field(receiver, name, node, dot, (), _NO_VALUE)
        return self._field(receiver, last, node, dot, arguments, final)

    def _field(
        self,
        receiver: Any,
        name: str,
        node: Node,
        dot: Any,
        arguments: tuple[Argument, ...],
        final: Any,
    ) -> Any:
        if receiver is INVALID:
            if self._err_missing_key:
                self._fail(f"nil data; no entry for key {quote(name)}")
            return INVALID
        if receiver is None:
            self._fail(f"nil pointer evaluating interface {{}}.{name}")
        method = getattr(receiver, "go_method", None)
        found = None if method is None else method(name)
        if found is not None:
            if not isinstance(found, GoFunction):
                found = GoFunction(found)
            return self._call(found, node, name, dot, arguments, final)
        has_arguments = bool(arguments) or final is not _NO_VALUE
        if isinstance(receiver, GoStruct):
            value = receiver.go_field(name)
            if value is not INVALID:
                if has_arguments:
                    self._fail(f"{name} has arguments but cannot be invoked as function")
                return value
        elif isinstance(receiver, Mapping):
            if has_arguments:
                self._fail(f"{name} is not a method but has arguments")
            if name in receiver:
                return receiver[name]
            if self._err_missing_key:
                self._fail(f"map has no entry for key {quote(name)}")
            return zero_element(receiver)
        self._fail(f"can't evaluate field {name} in type {type_name(receiver)}")

    # -- calls -------------------------------------------------------------------------------------

    def _function(
        self,
        node: FunctionName,
        shown: Node,
        dot: Any,
        arguments: tuple[Argument, ...],
        final: Any,
    ) -> Any:
        self._node = node
        function = self._functions[node.name]
        if node.name == "call" and function is GO_FUNCTIONS["call"] and arguments:
            function = fn(lambda *given: call(*given, shown=str(arguments[0])), ANY, rest=ANY)
        if node.name in ("and", "or") and function is GO_FUNCTIONS[node.name]:
            return self._short_circuit(node.name, dot, arguments, final)
        return self._call(function, shown, node.name, dot, arguments, final)

    def _short_circuit(
        self, name: str, dot: Any, arguments: tuple[Argument, ...], final: Any
    ) -> Any:
        if not arguments and final is _NO_VALUE:
            self._fail(f"wrong number of args for {name}: want at least 1 got 0")
        value: Any = INVALID
        for argument in arguments:
            value = self._argument(argument, dot, ANY)
            if truth(value) == (name == "or"):
                return value
        return value if final is _NO_VALUE else final

    def _call(
        self,
        function: GoFunction,
        shown: Node,
        name: str,
        dot: Any,
        arguments: tuple[Argument, ...],
        final: Any,
    ) -> Any:
        """Calls a function or method with checked arguments; the pipeline's value comes last."""
        wanted, rest = function.parameters, function.rest
        count = len(arguments) + (final is not _NO_VALUE)
        if rest is None and count != len(wanted):
            self._fail(f"wrong number of args for {name}: want {len(wanted)} got {count}")
        if rest is not None and count < len(wanted):
            self._fail(
                f"wrong number of args for {name}: want at least {len(wanted)} got {len(arguments)}"
            )
        types = [*wanted, *[rest or ANY] * (count - len(wanted))]
        given = [
            self._argument(argument, dot, type_)
            for argument, type_ in zip(arguments, types, strict=False)
        ]
        if final is not _NO_VALUE:
            given.append(self._refusing(checked_argument, final, types[-1]))
        try:
            for value in given:
                self._budget.spend_on(value)
            result = function.call(*given)
            self._budget.spend_on(result)
        except LimitError:
            raise
        except InvalidInputError as error:
            problem = str(error)
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            problem = str(error)
        else:
            return result
        self._node = shown
        self._fail(f"error calling {name}: {problem}")

    def _argument(self, node: Argument, dot: Any, type_: str | None) -> Any:
        """The argument's value, which must be of the type; None: of any."""
        self._budget.spend()
        self._node = node
        match node:
            case Dot():
                return self._refusing(checked_argument, dot, type_)
            case Field() | Variable() | Chain():
                return self._refusing(
                    checked_argument, self._fields(node, dot, (), _NO_VALUE), type_
                )
            case FunctionName():
                return self._refusing(
                    checked_argument, self._function(node, node, dot, (), _NO_VALUE), type_
                )
            case Pipeline():
                return self._refusing(checked_argument, self._pipeline(node, dot), type_)
        assert isinstance(node, LiteralValue)
        return self._refusing(literal_argument, node, type_)

    def _refusing(self, check: Callable[..., Any], *given: Any) -> Any:
        """What `check` gives; an argument that it refuses is an error at this place."""
        try:
            return check(*given)
        except RefusedArgument as error:
            self._fail(str(error))
