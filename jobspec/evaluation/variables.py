"""Input variables: declarations, the sources of their values, types and validation rules.

Precedence, lowest first: default, environment (`NOMAD_VAR_x`, then `ORCHGIT_VAR_x`), var-files in
order, `-var`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jobspec.errors import Diagnostics, HclError, SourceText, did_you_mean
from jobspec.evaluation.budget import Budget, BudgetError
from jobspec.evaluation.evaluate import POISON, Scope, evaluate
from jobspec.evaluation.numbers import Null
from jobspec.evaluation.type_syntax import read_type
from jobspec.evaluation.values import ConvertError, Type, Value, convert, to_bool, type_of
from jobspec.functions.call import refuse_calls
from jobspec.hcl.parser import parse_expression
from jobspec.hcl.tree import Attribute, Block, Body, Expression, For, Traversal, walk

Calls = Callable[[Any, Scope], Value]
_ENV_PREFIXES = ("NOMAD_VAR_", "ORCHGIT_VAR_")
_ATTRIBUTES = ("type", "default", "description")


class InputVariable:
    """One declaration and, once found, its value and the place that the value came from."""

    def __init__(self, name: str, start: int, end: int) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.type: Type = "dynamic"
        self.typed = False
        self.value: Value | None = None
        self.origin = "default"
        self.place: tuple[SourceText, int, int] | None = None
        self.rules: list[Block] = []
        self.broken = False

    @property
    def takes_text(self) -> bool:
        """Values given as text are taken literally, not read as expressions."""
        return self.type in ("string", "number", "dynamic")


class InputVariables:
    """The variables of one file."""

    def __init__(
        self, source: SourceText, diagnostics: Diagnostics, calls: Calls, budget: Budget
    ) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.calls = calls
        self.budget = budget
        self.declared: dict[str, InputVariable] = {}
        self._constants = self._constant_scope(source.text)

    def _constant_scope(self, text: str) -> Scope:
        return Scope({}, text, refuse_calls, runtime=False, budget=self.budget)

    # -- declarations -----------------------------------------------------------------------

    def declare(self, block: Block) -> None:
        """`variable "name" { ... }`"""
        name = self._name(block)
        if name is None:
            return
        variable = InputVariable(name, block.start, block.end)
        if not self._add(variable, name):
            return
        for attribute in block.body.attributes.values():
            if attribute.name not in _ATTRIBUTES:
                self.diagnostics.report(
                    f'Unsupported argument: an argument named "{attribute.name}" is not expected '
                    "here.",
                    attribute.start,
                    attribute.end,
                    did_you_mean(attribute.name, _ATTRIBUTES),
                )
        for inner in block.body.blocks:
            if inner.type == "validation":
                variable.rules.append(inner)
            else:
                self.diagnostics.report(
                    f'Unsupported block type: blocks of type "{inner.type}" are not expected here.',
                    inner.start,
                    inner.type_end,
                )
        self._guard(variable, lambda: self._typed_default(variable, block.body.attributes))

    def declare_many(self, block: Block) -> None:
        """`variables { name = default }`"""
        for inner in block.body.blocks:
            self.diagnostics.report(
                f'Unexpected "{inner.type}" block: blocks are not allowed here.',
                inner.start,
                inner.type_end,
            )
        for attribute in block.body.attributes.values():
            variable = InputVariable(attribute.name, attribute.start, attribute.end)
            if self._add(variable, attribute.name):
                self._guard(
                    variable,
                    lambda v=variable, a=attribute: self._typed_default(v, {"default": a}),  # type: ignore[misc]
                )

    def _name(self, block: Block) -> str | None:
        if not block.labels:
            self.diagnostics.report(
                "Missing name for variable: all variable blocks must have 1 label (name).",
                block.open,
                block.open + 1,
            )
            return None
        if len(block.labels) > 1:
            extra = block.labels[1]
            self.diagnostics.report(
                "Extraneous label for variable: only 1 label (name) is expected.",
                extra.start,
                extra.end,
            )
        label = block.labels[0]
        name = label.value
        if not name[:1].replace("_", "a").isalpha() or not all(
            c.isalnum() or c in "_-" for c in name
        ):
            self.diagnostics.report(
                "Invalid variable name: a name must start with a letter or underscore and may "
                "contain only letters, digits, underscores, and dashes.",
                label.start,
                label.end,
            )
            return None
        return name

    def _add(self, variable: InputVariable, name: str) -> bool:
        if name in self.declared:
            line, column = self.source.position(self.declared[name].start)
            self.diagnostics.report(
                f'Duplicate variable: "{name}" was already declared at line {line}, '
                f"column {column}.",
                variable.start,
                variable.end,
            )
            return False
        self.declared[name] = variable
        return True

    def _typed_default(self, variable: InputVariable, attributes: Mapping[str, Attribute]) -> None:
        if "type" in attributes:
            variable.type = read_type(attributes["type"].expr)
            variable.typed = True
        if "default" not in attributes:
            if not variable.typed:
                variable.type = "string"
            return
        expr = attributes["default"].expr
        value = self._constant(expr, self._constants)
        if not variable.typed:
            variable.type = type_of(value)
        try:
            variable.value = convert(value, variable.type)
        except ConvertError as error:
            raise HclError(
                "Invalid default value for variable: it is not compatible with the variable's "
                f"type constraint: {error}.",
                expr.start,
                expr.end,
            ) from None
        variable.place = (self.source, expr.start, expr.end)

    def _constant(self, expr: Expression, scope: Scope) -> Value:
        bound = _bound_inside(expr)
        for node in walk(expr):
            if isinstance(node, Traversal) and scope.find(node.root) is None:
                if node.root in bound:
                    continue
                raise HclError(
                    "Variables not allowed: variables may not be used here.", node.start, node.end
                )
        return evaluate(expr, scope)

    # -- values -----------------------------------------------------------------------------

    def set_from_env(self, env: Mapping[str, str]) -> None:
        for prefix in _ENV_PREFIXES:
            for key in sorted(env):
                variable = self.declared.get(key.removeprefix(prefix))
                if key.startswith(prefix) and variable is not None:
                    self._from_text(variable, env[key], "env")

    def set_from_arguments(self, arguments: Mapping[str, str], strict: bool) -> None:
        for name, text in arguments.items():
            variable = self.declared.get(name)
            if variable is not None:
                self._from_text(variable, text, "cmd")
            elif strict:
                self.diagnostics.report_nowhere(
                    f'Undefined -var variable: "{name}" was passed in but is not declared in the '
                    "file.",
                    did_you_mean(name, self.declared),
                )

    def _from_text(self, variable: InputVariable, text: str, origin: str) -> None:
        flag = "-var variable" if origin == "cmd" else "variable"
        variable.origin = origin
        if variable.takes_text:
            variable.place = None
            try:
                variable.value = convert(text, variable.type)
            except ConvertError as error:
                variable.broken = True
                self.diagnostics.report_nowhere(
                    f"Invalid value for {flag} {variable.name}: it is not compatible with the "
                    f"variable's type constraint: {error}."
                )
            return
        where = "arguments" if origin == "cmd" else "environment"
        source = SourceText(f"<value for var.{variable.name} from {where}>", text)
        scope = self._constant_scope(text)
        variable.place = (source, 0, len(text))
        self._guard(variable, lambda: self._from_expression(variable, source, scope, flag))

    def _from_expression(
        self, variable: InputVariable, source: SourceText, scope: Scope, flag: str
    ) -> None:
        try:
            expr = parse_expression(source.text)
            value = self._constant(expr, scope)
        except (HclError, BudgetError) as error:
            error.source = source
            raise
        try:
            variable.value = convert(value, variable.type)
        except ConvertError as error:
            raise HclError(
                f"Invalid value for {flag} {variable.name}: it is not compatible with the "
                f"variable's type constraint: {error}.",
                expr.start,
                expr.end,
                source=source,
            ) from None

    def set_from_file(self, source: SourceText, body: Body, strict: bool) -> None:
        for block in body.blocks:
            hint = "Variables are declared in the job file." if block.type == "variable" else ""
            self._report_in(
                source,
                HclError(
                    f'Unexpected "{block.type}" block: a var-file holds only name = value.',
                    block.start,
                    block.type_end,
                    hint,
                ),
            )
        for attribute in body.attributes.values():
            variable = self.declared.get(attribute.name)
            if variable is None:
                if strict:
                    self._report_in(source, self._undeclared(attribute))
                continue
            variable.origin = "varfile"
            variable.place = (source, attribute.expr.start, attribute.expr.end)
            self._guard(
                variable,
                lambda v=variable, a=attribute: self._from_attribute(v, a, source),  # type: ignore[misc]
            )

    def _undeclared(self, attribute: Attribute) -> HclError:
        return HclError(
            f'Undefined variable: "{attribute.name}" is set here but is not declared in the file.',
            attribute.start,
            attribute.end,
            did_you_mean(attribute.name, self.declared),
        )

    def _from_attribute(
        self, variable: InputVariable, attribute: Attribute, source: SourceText
    ) -> None:
        expr = attribute.expr
        try:
            value = self._constant(expr, self._constant_scope(source.text))
            variable.value = convert(value, variable.type)
        except (HclError, BudgetError) as error:
            error.source = source
            raise
        except ConvertError as error:
            raise HclError(
                f"Invalid value for variable {variable.name}: it is not compatible with the "
                f"variable's type constraint: {error}.",
                expr.start,
                expr.end,
                source=source,
            ) from None

    # -- result -----------------------------------------------------------------------------

    def resolve(self) -> dict[str, Value]:
        """Returns all values by name, checked by their rules; wrong ones are reported."""
        values: dict[str, Value] = {}
        for name, variable in self.declared.items():
            if variable.value is None:
                if not variable.broken:
                    self.diagnostics.report(
                        f'Unset variable "{name}": it has no default and no value was given.',
                        variable.start,
                        variable.end,
                        hint=f"Pass -var {name}=VALUE, or set NOMAD_VAR_{name}.",
                    )
                values[name] = POISON
            elif variable.broken:
                values[name] = POISON
            else:
                values[name] = variable.value
                for rule in variable.rules:
                    self._guard(None, lambda v=variable, r=rule: self._check(v, r))  # type: ignore[misc]
        return values

    def _check(self, variable: InputVariable, rule: Block) -> None:
        attributes = rule.body.attributes
        for name in ("condition", "error_message"):
            if name not in attributes:
                self.diagnostics.report(
                    f'Missing required argument: the argument "{name}" is required.',
                    rule.open,
                    rule.open,
                )
        for attribute in attributes.values():
            if attribute.name not in ("condition", "error_message"):
                self.diagnostics.report(
                    f'Unsupported argument: an argument named "{attribute.name}" is not expected '
                    "here.",
                    attribute.start,
                    attribute.end,
                )
        message = self._rule_message(attributes.get("error_message"))
        if "condition" not in attributes:
            return
        condition = attributes["condition"].expr
        self._own_references(variable, condition)
        scope = Scope(
            {"var": {variable.name: variable.value}},
            self.source.text,
            self.calls,
            runtime=False,
            budget=self.budget,
        )
        value = evaluate(condition, scope)
        try:
            passed = type(value) is not Null and to_bool(value)
        except ConvertError as error:
            raise HclError(
                f"Invalid variable validation result: {error}.", condition.start, condition.end
            ) from None
        if not passed:
            self._failed(variable, rule, message)

    def _rule_message(self, attribute: Attribute | None) -> str:
        if attribute is None:
            return ""
        message = evaluate(attribute.expr, self._constants)
        if type(message) is not str or not message.strip():
            self.diagnostics.report(
                "Invalid validation error message: it must say something useful.",
                attribute.expr.start,
                attribute.expr.end,
            )
            return ""
        return message

    def _own_references(self, variable: InputVariable, condition: Expression) -> None:
        own = False
        for node in walk(condition):
            if not isinstance(node, Traversal) or node.root not in ("var", "local"):
                continue
            first = node.steps[0].key if node.steps else None
            if node.root == "var" and first == variable.name:
                own = True
                continue
            self.diagnostics.report(
                "Invalid reference in variable validation: the condition for variable "
                f'"{variable.name}" can only refer to the variable itself, using '
                f"var.{variable.name}.",
                node.start,
                node.steps[0].end if node.steps else node.end,
            )
        if not own:
            self.diagnostics.report(
                "Invalid variable validation condition: it must refer to "
                f"var.{variable.name} in order to test incoming values.",
                condition.start,
                condition.end,
            )

    def _failed(self, variable: InputVariable, rule: Block, message: str) -> None:
        line, column = self.source.position(rule.start)
        text = (
            f"Invalid value for {variable.origin} variable {variable.name}: {message}\n\n"
            "This was checked by the validation rule at "
            f"{self.source.name}:{line},{column}-{column + len('validation')}."
        )
        if variable.place is None:
            self.diagnostics.report_nowhere(text)
        else:
            source, start, end = variable.place
            self._report_in(source, HclError(text, start, end))

    # -- problems ---------------------------------------------------------------------------

    def _guard(self, variable: InputVariable | None, run: Callable[[], None]) -> None:
        try:
            run()
        except HclError as error:
            self.diagnostics.add(error)
            if variable is not None:
                variable.broken = True

    def _report_in(self, source: SourceText, error: HclError) -> None:
        error.source = source
        self.diagnostics.add(error)


def _bound_inside(expr: Expression) -> set[str]:
    """The names that a for-expression inside `expr` binds."""
    return {
        name
        for node in walk(expr)
        if isinstance(node, For)
        for name in (node.key_name, node.value_name)
    }
