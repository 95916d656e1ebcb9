"""Evaluates expressions to values.

The parser has folded literals, so only what has to be computed is walked here. Every mistake is an
HclError at the range of the part that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jobspec.errors import HclError
from jobspec.evaluation import numbers, runtime_text
from jobspec.evaluation.budget import BudgetError
from jobspec.evaluation.indexing import index_at, walk_steps
from jobspec.evaluation.numbers import NULL, Null
from jobspec.evaluation.scope import POISON, Scope, SilentError
from jobspec.evaluation.values import (
    ConvertError,
    List,
    SetOf,
    Value,
    convert,
    elements,
    equal,
    mapping,
    to_bool,
    to_number,
    to_string,
    type_name,
    type_name_of,
    type_of,
    unify,
)
from jobspec.hcl import tree

__all__ = ["MAX_STRING", "POISON", "Scope", "SilentError", "evaluate", "iterate"]

MAX_STRING = 4 * 1024 * 1024


def evaluate(node: tree.Expression, scope: Scope) -> Value:
    """Returns the value of an expression. Raises HclError, or BudgetError at the innermost part."""
    try:
        scope.budget.charge(1)
        return _EVALUATE[type(node)](node, scope)
    except BudgetError as error:
        if error.start is None:
            error.start, error.end = node.start, node.end
        raise


def final(node: tree.Expression, scope: Scope) -> Value:
    """Returns the value of an expression that becomes a part of the job. The size of the value is
    charged too: a value that two parts refer to is written out twice."""
    try:
        value = node.value if type(node) is tree.LiteralExpression else evaluate(node, scope)
        scope.budget.charge(1, scope.budget.walk(value))
    except BudgetError as error:
        if error.start is None:
            error.start, error.end = node.start, node.end
        raise
    return value


def _template(node: tree.TemplateExpression, scope: Scope) -> Value:
    parts = [_interpolated(part, scope) for part in node.parts]
    if len(parts) > 1 and sum(map(len, parts)) > MAX_STRING:
        raise HclError(f"String too long: more than {MAX_STRING} characters.", node.start, node.end)
    scope.budget.charge(len(parts), sum(map(len, parts)))
    return "".join(parts)


def _interpolated(part: tree.Expression, scope: Scope) -> str:
    value = evaluate(part, scope)
    if type(value) is str:
        return value
    if type(value) is Null:
        raise HclError(
            "Invalid template interpolation value: the expression result is null.",
            part.start,
            part.end,
        )
    try:
        return to_string(value)
    except ConvertError as error:
        raise HclError(
            f"Invalid template interpolation value: {error}.", part.start, part.end
        ) from None


def _template_join(node: tree.TemplateJoin, scope: Scope) -> Value:
    parts = evaluate(node.loop, scope)
    length = sum(map(len, parts))
    if length > MAX_STRING:
        raise HclError(f"String too long: more than {MAX_STRING} characters.", node.start, node.end)
    scope.budget.charge(len(parts), length)
    return "".join(parts)


def _traversal(node: tree.Traversal, scope: Scope) -> Value:
    value = scope.find(node.root)
    if value is None:
        if not scope.runtime:
            raise HclError(
                f'Unknown variable: there is no variable named "{node.root}".',
                node.start,
                node.root_end,
            )
        return runtime_text.source_of(scope.text, node.start, node.end)
    if not node.steps and type(value) is dict and POISON in value.values():
        raise SilentError("", node.start, node.end)
    return walk_steps(value, node.steps)


def _index(node: tree.Index, scope: Scope) -> Value:
    collection = evaluate(node.collection, scope)
    key = evaluate(node.key, scope)
    return index_at(collection, key, node.open, node.end)


def _splat(node: tree.Splat, scope: Scope) -> Value:
    source = evaluate(node.source, scope)
    if type(source) is Null:
        return ()
    items = elements(source)
    if items is None:
        items = (source,)
    results = []
    for item in items:
        scope.budget.turn()
        results.append(evaluate(node.each, scope.inner({node.item: item})))
    if type(source) is List and results:
        scope.budget.walk(results)
        element = unify([type_of(result) for result in results])
        if element is not None:
            return List(element, [convert(result, element) for result in results])
    return tuple(results)


def _conditional(node: tree.Conditional, scope: Scope) -> Value:
    chosen = _condition(node.condition, scope)
    results: list[Value | HclError] = []
    for arm in (node.yes, node.no):
        try:
            results.append(evaluate(arm, scope))
        except HclError as error:
            results.append(error)
    result, other = results if chosen else (results[1], results[0])
    if isinstance(result, HclError):
        raise result
    if not isinstance(other, HclError):
        scope.budget.walk((result, other))
    if isinstance(other, HclError) or type_of(other) == type_of(result):
        return result
    common = unify([type_of(result), type_of(other)])
    if common is None:
        yes, no = (type_name(type_of(r)) for r in results)
        raise HclError(
            "Inconsistent conditional result types: the true and false result expressions must "
            f"have consistent types, but they are {yes} and {no}.",
            node.yes.start,
            node.no.end,
        )
    return convert(result, common)


def _condition(node: tree.Expression, scope: Scope) -> bool:
    value = evaluate(node, scope)
    try:
        if type(value) is not Null:
            return to_bool(value)
        problem = "Null condition: the condition value is null; it must be true or false."
    except ConvertError:
        problem = "Incorrect condition type: the condition expression must be of type bool."
    raise HclError(problem, node.start, node.end)


def _binary(node: tree.BinaryOperation, scope: Scope) -> Value:
    left = evaluate(node.left, scope)
    right = evaluate(node.right, scope)
    op = node.op
    if op in ("==", "!="):
        scope.budget.walk((left, right))
    if op == "==":
        return equal(left, right)
    if op == "!=":
        return not equal(left, right)
    to = to_bool if op in ("&&", "||") else to_number
    a = _operand(left, to, "left", node.left)
    b = _operand(right, to, "right", node.right)
    if a is NULL or b is NULL:
        raise HclError("Operation failed: argument must not be null.", node.start, node.end)
    try:
        return _OPERATORS[op](a, b)
    except (ZeroDivisionError, OverflowError) as error:
        raise HclError(f"Operation failed: {error}.", node.start, node.end) from None


def _operand(value: Value, to: Callable[[Value], Value], side: str, node: tree.Expression) -> Value:
    if type(value) is Null:
        return NULL
    try:
        return to(value)
    except ConvertError as error:
        raise HclError(
            f"Invalid operand: unsuitable value for {side} operand: {error}.", node.start, node.end
        ) from None


_OPERATORS: dict[str, Callable[[Any, Any], Value]] = {
    "+": numbers.add,
    "-": numbers.subtract,
    "*": numbers.multiply,
    "/": numbers.divide,
    "%": numbers.modulo,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "&&": lambda a, b: a and b,
    "||": lambda a, b: a or b,
}


def _unary(node: tree.UnaryOperation, scope: Scope) -> Value:
    to = to_bool if node.op == "!" else to_number
    value = _operand(evaluate(node.operand, scope), to, "unary", node.operand)
    if value is NULL:
        raise HclError("Operation failed: argument must not be null.", node.start, node.end)
    return not value if node.op == "!" else numbers.negate(value)


def _object(node: tree.Object, scope: Scope) -> Value:
    result: dict[str, Value] = {}
    for key_node, value_node in node.items:
        result[_object_key(key_node, value_node, scope)] = evaluate(value_node, scope)
    return result


def _object_key(node: tree.Expression, value: tree.Expression, scope: Scope) -> str:
    if isinstance(node, tree.Traversal):
        raise HclError(
            "Ambiguous attribute key: put a key expression in parentheses, or quote it.",
            node.start,
            node.end,
        )
    key = evaluate(node, scope)
    if type(key) is str:
        return key
    if type(key) is Null:
        raise HclError(
            "Null value as key: can't use a null value as a key.", value.start, value.end
        )
    try:
        return to_string(key)
    except ConvertError as error:
        raise HclError(f"Incorrect key type: {error}.", node.start, node.end) from None


def _for(node: tree.For, scope: Scope) -> Value:
    collection = evaluate(node.collection, scope)
    pairs = list(iterate(collection, node.collection, "used as the collection in a 'for'"))
    if node.key is None:
        return tuple(
            [evaluate(node.value, inner) for inner in _passing(node, pairs, scope)]
        )  # fmt: skip
    return _for_object(node, node.key, pairs, scope)


def _passing(node: tree.For, pairs: list[tuple[Value, Value]], scope: Scope) -> Iterator[Scope]:
    for key, value in pairs:
        names = {node.value_name: value}
        if node.key_name:
            names = {node.key_name: key, node.value_name: value}
        scope.budget.turn()
        inner = scope.inner(names)
        if node.condition is None or _for_condition(node.condition, inner):
            yield inner


def _for_condition(node: tree.Expression, scope: Scope) -> bool:
    value = evaluate(node, scope)
    try:
        if type(value) is not Null:
            return to_bool(value)
        problem = "Condition is null: the value of the 'if' clause must not be null."
    except ConvertError as error:
        problem = f"Invalid 'for' condition: the 'if' clause value is invalid: {error}."
    raise HclError(problem, node.start, node.end)


def _for_object(
    node: tree.For, key_node: tree.Expression, pairs: list[tuple[Value, Value]], scope: Scope
) -> Value:
    result: dict[str, Value] = {}
    for inner in _passing(node, pairs, scope):
        key = _for_key(key_node, inner)
        value = evaluate(node.value, inner)
        if node.group:
            result.setdefault(key, []).append(value)
        elif key in result:
            raise HclError(
                f"Duplicate object key: two items produced the key \"{key}\" in this 'for'.",
                key_node.start,
                key_node.end,
                hint="Put ... after the value to group by key.",
            )
        else:
            result[key] = value
    return {key: tuple(group) for key, group in result.items()} if node.group else result


def _for_key(node: tree.Expression, scope: Scope) -> str:
    key = evaluate(node, scope)
    if type(key) is Null:
        raise HclError("Invalid object key: it must not be null.", node.start, node.end)
    try:
        return to_string(key)
    except ConvertError as error:
        raise HclError(
            f"Invalid object key: the key expression produced an invalid result: {error}.",
            node.start,
            node.end,
        ) from None


def iterate(collection: Value, node: tree.Expression, use: str) -> Iterator[tuple[Value, Value]]:
    """Returns keys and values in order: index, sorted key, or for a set the value itself."""
    if type(collection) is Null:
        raise HclError(
            f"Iteration over null value: a null value cannot be {use}.", node.start, node.end
        )
    pairs = mapping(collection)
    if pairs is not None:
        return iter([(key, pairs[key]) for key in sorted(pairs)])
    if type(collection) is SetOf:
        return iter([(item, item) for item in collection.items])
    items = elements(collection)
    if items is None:
        raise HclError(
            "Iteration over non-iterable value: a value of type "
            f"{type_name_of(collection)} cannot be {use}.",
            node.start,
            node.end,
        )
    return iter(enumerate(items))


_EVALUATE: dict[type, Callable[[Any, Scope], Value]] = {
    tree.LiteralExpression: lambda node, scope: node.value,
    tree.TemplateExpression: _template,
    tree.TemplateWrap: lambda node, scope: evaluate(node.inner, scope),
    tree.TemplateJoin: _template_join,
    tree.Traversal: _traversal,
    tree.Relative: lambda node, scope: walk_steps(evaluate(node.source, scope), node.steps),
    tree.Index: _index,
    tree.Splat: _splat,
    tree.Item: lambda node, scope: scope.find(node),
    tree.CallExpression: lambda node, scope: scope.calls(node, scope),
    tree.Conditional: _conditional,
    tree.BinaryOperation: _binary,
    tree.UnaryOperation: _unary,
    tree.Parens: lambda node, scope: evaluate(node.inner, scope),
    tree.Tuple: lambda node, scope: tuple([evaluate(item, scope) for item in node.items]),
    tree.Object: _object,
    tree.For: _for,
}
