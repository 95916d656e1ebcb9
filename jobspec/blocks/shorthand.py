"""The short forms of constraints and affinities: `version = ">= 2"` for operator and value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobspec.blocks.scalars import CONVERTERS
from jobspec.errors import HclError, did_you_mean
from jobspec.evaluation.evaluate import Scope, final
from jobspec.evaluation.numbers import Null
from jobspec.evaluation.values import ConvertError
from jobspec.hcl.tree import Attribute, Body

_PLAIN = {"attribute": "LTarget", "value": "RTarget", "operator": "Operand"}
_CONSTRAINT = ("version", "semver", "regexp", "set_contains")
_AFFINITY = (*_CONSTRAINT, "set_contains_all", "set_contains_any")


def _constraint(body: Body, scope: Scope, decoded: dict[str, Any]) -> None:
    known = (*_PLAIN, *_CONSTRAINT, "distinct_hosts", "distinct_property")
    _read(body, scope, decoded, known, _CONSTRAINT)
    hosts = _value(body.attributes.get("distinct_hosts"), "bool", scope)
    if hosts is not None:
        decoded["Operand"] = "distinct_hosts"
        decoded["RTarget"] = "true" if hosts else "false"
    distinct = _value(body.attributes.get("distinct_property"), "string", scope)
    if distinct is not None:
        decoded["Operand"] = "distinct_property"
        decoded["LTarget"] = distinct
    decoded["Operand"] = decoded["Operand"] or "="


def _affinity(body: Body, scope: Scope, decoded: dict[str, Any]) -> None:
    _read(body, scope, decoded, (*_PLAIN, *_AFFINITY, "weight"), _AFFINITY)
    decoded["Weight"] = _value(body.attributes.get("weight"), "int8", scope)
    decoded["Operand"] = decoded["Operand"] or "="


def _read(
    body: Body,
    scope: Scope,
    decoded: dict[str, Any],
    known: tuple[str, ...],
    operators: tuple[str, ...],
) -> None:
    attributes = body.attributes
    for attribute in attributes.values():
        if attribute.name not in known:
            raise HclError(
                f'Unsupported argument: an argument named "{attribute.name}" is not expected here.',
                attribute.start,
                attribute.end,
                did_you_mean(attribute.name, known),
            )
    for name, key in _PLAIN.items():
        decoded[key] = _value(attributes.get(name), "string", scope) or ""
    for name in operators:
        value = _value(attributes.get(name), "string", scope)
        if value is not None:
            decoded["Operand"] = name
            decoded["RTarget"] = value


def _value(attribute: Attribute | None, kind: str, scope: Scope) -> Any:
    if attribute is None:
        return None
    expr = attribute.expr
    value = final(expr, scope)
    if type(value) is Null:
        return None
    try:
        return CONVERTERS[kind](value)
    except ConvertError as error:
        raise HclError(
            f'Incorrect attribute value type: inappropriate value for "{attribute.name}": {error}.',
            expr.start,
            expr.end,
        ) from None


SHORT_FORMS: dict[str, Callable[[Body, Scope, dict[str, Any]], None]] = {
    "constraint": _constraint,
    "affinity": _affinity,
}
