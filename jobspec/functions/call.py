"""A call in an expression: find the function, fit the arguments, point at what does not."""

from __future__ import annotations

from collections.abc import Callable

from jobspec.errors import HclError, did_you_mean
from jobspec.evaluation.budget import Budget
from jobspec.evaluation.evaluate import Scope, SilentError, evaluate
from jobspec.evaluation.numbers import NEGATIVE_ZERO
from jobspec.evaluation.type_syntax import read_type
from jobspec.evaluation.values import ConvertError, Value, convert, elements, is_null
from jobspec.functions import NAMES, find_function
from jobspec.functions.signature import (
    MAX_CHARACTERS,
    ArgumentError,
    CallContext,
    Function,
    FunctionError,
    Param,
)
from jobspec.hcl import tree
from jobspec.hcl.tree import start_of

_LOOKS = frozenset(("element", "index", "length", "lookup"))
"""They take one part of a collection, however large it is."""


def caller(context: CallContext) -> Callable[[tree.CallExpression, Scope], Value]:
    """How a `Scope` evaluates calls, given what functions may use."""

    def call(node: tree.CallExpression, scope: Scope) -> Value:
        special = _SPECIAL.get(node.name)
        if special is not None:
            return special(node, scope)
        function = find_function(node.name)
        if function is None:
            raise HclError(
                f'Call to unknown function: there is no function named "{node.name}".',
                node.start,
                node.name_end,
                did_you_mean(node.name, NAMES),
            )
        return _run(node, function, scope, context)

    return call


def refuse_calls(node: tree.CallExpression, scope: Scope) -> Value:
    raise HclError(
        "Function calls not allowed: functions may not be called here.", node.start, node.end
    )


def _run(
    node: tree.CallExpression, function: Function, scope: Scope, context: CallContext
) -> Value:
    nodes, values = _arguments(node, scope)
    _check_count(node, function, nodes, scope.text)
    is_look = node.name in _LOOKS
    if not is_look:
        _pay(node, context.budget, values)
    params = [_param(function, i) for i in range(len(nodes))]
    args = [_fit(*each, scope) for each in zip(values, params, nodes, strict=True)]
    for value, param, arg in zip(args, params, nodes, strict=True):
        if is_null(value) and not param.nullable:
            raise _unfit(param, arg, "argument must not be null", scope)
    try:
        result = function.run(context, *args) if function.in_context else function.run(*args)
        if not is_look:
            context.budget.charge(0, context.budget.walk(result))
        return result
    except ArgumentError as error:
        where = nodes[min(error.index, len(nodes) - 1)] if nodes else node
        start = start_of(where, scope.text)
        name = _param(function, error.index).name
        raise HclError(
            f'Invalid function argument: invalid value for "{name}" parameter: {error}.',
            start,
            where.end,
        ) from None
    except FunctionError as error:
        raise _failed(node, str(error)) from None
    except (ConvertError, OverflowError) as error:
        raise _failed(node, str(error)) from None


def _pay(node: tree.CallExpression, budget: Budget, values: list[Value]) -> None:
    """Functions walk their arguments, and write out what is in them once, or a few times."""
    characters = sum(map(budget.walk, values))
    if characters > 2 * MAX_CHARACTERS:
        raise _failed(node, f"the arguments hold more than {2 * MAX_CHARACTERS} characters")


def _failed(node: tree.CallExpression, why: str) -> HclError:
    return HclError(
        f'Error in function call: call to function "{node.name}" failed: {why}.',
        node.start,
        node.name_end,
    )


def _arguments(
    node: tree.CallExpression, scope: Scope
) -> tuple[list[tree.Expression], list[Value]]:
    nodes = list(node.args)
    values = [evaluate(arg, scope) for arg in nodes]
    if not node.expand:
        return nodes, values
    last, spread = nodes[-1], values[-1]
    if is_null(spread):
        raise HclError(
            "Invalid expanding argument value: it must not be null.", last.start, last.end
        )
    items = elements(spread)
    if items is None:
        raise HclError(
            "Invalid expanding argument value: it must be a tuple, list, or set.",
            last.start,
            last.end,
        )
    return nodes[:-1] + [last] * len(items), values[:-1] + list(items)


def _check_count(
    node: tree.CallExpression, function: Function, nodes: list[tree.Expression], source: str
) -> None:
    expected = len(function.params)
    if len(nodes) < expected:
        missing = function.params[len(nodes)].name
        at_least = "at least " if function.rest else ""
        raise HclError(
            f'Not enough function arguments: function "{node.name}" expects {at_least}'
            f'{expected} argument(s); missing value for "{missing}".',
            node.close,
            node.close + 1,
        )
    if len(nodes) > expected and function.rest is None:
        extra = nodes[expected]
        raise HclError(
            f'Too many function arguments: function "{node.name}" expects only '
            f"{expected} argument(s).",
            start_of(extra, source),
            extra.end,
        )


def _param(function: Function, index: int) -> Param:
    if index < len(function.params):
        return function.params[index]
    return function.rest or function.params[-1]


def _fit(value: Value, param: Param, node: tree.Expression, scope: Scope) -> Value:
    """The type of every argument is judged before any is found to be null."""
    if is_null(value) or param.type == "dynamic":
        return value
    try:
        fitted = convert(value, param.type)
        return 0 if fitted is NEGATIVE_ZERO else fitted
    except ConvertError as error:
        raise _unfit(param, node, str(error), scope) from None


def _unfit(param: Param, node: tree.Expression, why: str, scope: Scope) -> HclError:
    return HclError(
        f'Invalid function argument: invalid value for "{param.name}" parameter: {why}.',
        start_of(node, scope.text),
        node.end,
    )


# -- functions of expressions, not of values ---------------------------------------------------


def _can(node: tree.CallExpression, scope: Scope) -> Value:
    if len(node.args) != 1:
        raise _count_error(node, 1, scope.text)
    try:
        evaluate(node.args[0], scope)
    except SilentError:
        raise
    except HclError:
        return False
    return True


def _try(node: tree.CallExpression, scope: Scope) -> Value:
    if not node.args:
        raise _failed(node, "at least one argument is required")
    reasons = []
    for arg in node.args:
        try:
            return evaluate(arg, scope)
        except SilentError:
            raise
        except HclError as error:
            reasons.append(error.message)
    raise _failed(node, "no expression succeeded: " + " ".join(reasons))


def _convert(node: tree.CallExpression, scope: Scope) -> Value:
    if len(node.args) != 2:
        raise _count_error(node, 2, scope.text)
    value_node, type_node = node.args
    type_ = read_type(type_node, exact=False)
    try:
        return convert(evaluate(value_node, scope), type_)
    except ConvertError as error:
        raise HclError(
            f'Invalid function argument: invalid value for "value" parameter: {error}.',
            start_of(value_node, scope.text),
            value_node.end,
        ) from None


def _count_error(node: tree.CallExpression, expected: int, source: str) -> HclError:
    if len(node.args) > expected:
        extra = node.args[expected]
        return HclError("Too many function arguments.", start_of(extra, source), extra.end)
    return HclError("Not enough function arguments.", node.close, node.close + 1)


_SPECIAL: dict[str, Callable[[tree.CallExpression, Scope], Value]] = {
    "can": _can,
    "try": _try,
    "convert": _convert,
}
