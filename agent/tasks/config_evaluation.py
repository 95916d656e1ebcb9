"""Evaluates a task's driver `config` as HCL: references, expressions and a few functions. Pure.

References alone are replaced without the HCL engine, which is imported when a text needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobspec.errors import HclError

_SIMPLE = re.compile(r"\$\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}")
_MARKS = re.compile(r"\$\{|%\{")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w-]*")
_NO_EXPRESSION = (
    "Invalid expression: Expected the start of an expression, but found an invalid expression "
    "token."
)
_UNCLOSED = (
    "Unclosed template interpolation sequence: There is no closing brace for this interpolation "
    "sequence before the end of the file. This might be caused by incorrect nesting inside the "
    "given expression."
)
_FUNCTIONS = frozenset(
    (
        *("abs", "coalesce", "concat", "jsondecode", "jsonencode", "length", "lower", "max"),
        *("min", "reverse", "strlen", "substr", "upper"),
    )
)
"""Those that Nomad has here; none reads a file or the time."""
_SUGGESTED_DISTANCE = 3
_MAX_SHOWN = 20


class ConfigScope:
    """What a config may refer to: variables of the task's environment, `env`, `node`, `attr` and
    `meta`."""

    def __init__(self, names: Mapping[str, str], env: Mapping[str, str]) -> None:
        """`names`: `node.*`, `attr.*` and `meta.*` of the node."""
        dotted = {**names, **{f"env.{name}": value for name, value in env.items()}}
        dotted |= {
            f"node.{name}": value
            for name, value in names.items()
            if name.startswith(("meta.", "attr."))
        }
        self._flat = {**env, **dotted}
        self._dotted = dotted
        self._env = {name: value for name, value in env.items() if _IDENTIFIER.fullmatch(name)}

    def evaluate(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Returns the config with its texts evaluated, and the problems of those that cannot be."""
        problems: list[str] = []
        evaluated = self._value(dict(config), problems)
        assert isinstance(evaluated, dict)
        return evaluated, problems[:_MAX_SHOWN]

    def _value(self, value: Any, problems: list[str]) -> Any:
        if isinstance(value, str):
            return self._text(value, problems) if _MARKS.search(value) else value
        if isinstance(value, list):
            return [self._value(item, problems) for item in value]
        if isinstance(value, dict):
            return {
                self._value(key, problems): self._value(item, problems)
                for key, item in value.items()
            }
        return value

    def _text(self, text: str, problems: list[str]) -> Any:
        if "$${" not in text and "%{" not in text:
            rest = _SIMPLE.sub(lambda found: self._flat.get(found[1], found[0]), text)
            simple = list(_SIMPLE.finditer(text))
            if len(simple) == text.count("${") and all(each[1] in self._flat for each in simple):
                return rest
        from jobspec.errors import HclError

        try:
            return self._evaluated(text)
        except HclError as error:
            problems += self._explained(error, text)
            return text

    def _evaluated(self, text: str) -> Any:
        from jobspec.errors import HclError
        from jobspec.evaluation.budget import BudgetError
        from jobspec.evaluation.evaluate import evaluate
        from jobspec.evaluation.scope import Scope
        from jobspec.evaluation.values import ConvertError, elements, mapping, to_string
        from jobspec.functions.call import caller
        from jobspec.functions.signature import CallContext
        from jobspec.hcl.parser import parse_template

        call_any = caller(CallContext())

        def call(node: Any, scope: Scope) -> Any:
            if node.name not in _FUNCTIONS:
                message = f'Call to unknown function: there is no function named "{node.name}".'
                raise HclError(message, node.start, node.name_end)
            return call_any(node, scope)

        names = {**self._env, **nested(self._dotted)}
        try:
            value = evaluate(
                parse_template(text, 0, len(text)), Scope(names, text, call, runtime=False)
            )
            is_several = elements(value) is not None or mapping(value) is not None
            return _plain(value) if is_several else to_string(value)
        except BudgetError as error:
            raise HclError(str(error), 0, len(text)) from None
        except ConvertError as error:
            raise HclError(f"Invalid value: {error}.", 0, len(text)) from None

    def _explained(self, error: HclError, text: str) -> list[str]:
        summary, separator, detail = error.message.partition(": ")
        message = f"{summary}: {detail[:1].upper()}{detail[1:]}" if separator else summary
        if summary == "Invalid expression":
            return [_NO_EXPRESSION]
        if summary == "Invalid character":
            return [message, _NO_EXPRESSION]
        if summary == "Extra characters after interpolation expression" and "}" not in text:
            return [_UNCLOSED]
        if summary == "Invalid template control keyword":
            keyword = text[error.start : error.end]
            return [f'{summary}: "{keyword}" is not a valid template control keyword.']
        if summary != "Unknown variable":
            return [message]
        given = text[error.start : error.end]
        near = nearest(given, sorted({*self._env, "attr", "env", "meta", "node"}))
        return [f'{message} Did you mean "{near}"?' if near else message]


def nested(dotted: Mapping[str, str]) -> dict[str, Any]:
    """Returns `a.b.c` names as maps in maps. Where one name is the beginning of another, the
    shorter one counts."""
    found: dict[str, Any] = {}
    for name in sorted(dotted):
        *above, last = name.split(".")
        place: Any = found
        for part in above:
            place = place.setdefault(part, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.setdefault(last, dotted[name])
    return found


def nearest(given: str, names: Iterable[str]) -> str:
    """Returns the first of the names that is less than three changes away; "" without one."""
    return next((name for name in names if _distance(given, name) < _SUGGESTED_DISTANCE), "")


def _distance(left: str, right: str) -> int:
    if abs(len(left) - len(right)) >= _SUGGESTED_DISTANCE:
        return _SUGGESTED_DISTANCE
    row = list(range(len(right) + 1))
    for number, one in enumerate(left, 1):
        before, row[0] = row[0], number
        for column, other in enumerate(right, 1):
            before, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, before + (one != other)),
            )
    return row[-1]


def _plain(value: Any) -> Any:
    from jobspec.evaluation.numbers import Null
    from jobspec.evaluation.values import elements, mapping

    pairs, items = mapping(value), elements(value)
    if pairs is not None:
        return {key: _plain(item) for key, item in pairs.items()}
    if items is not None:
        return [_plain(item) for item in items]
    return None if isinstance(value, Null) else value
