"""The functions that Go's text/template defines itself (https://pkg.go.dev/text/template)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_templates.printing import formatted, sprint, sprintf, sprintln
from orchgit.go_templates.values import (
    INVALID,
    GoChannel,
    GoStruct,
    Int64,
    TypedList,
    Uint8,
    from_bytes,
    is_nil,
    kind_of,
    plain,
    to_bytes,
    truth,
    type_name,
    zero_element,
)

ANY = "interface {}"
TEXT = "string"


@dataclass(frozen=True, slots=True)
class GoFunction:
    """A function with Go's types of its parameters. `rest`: the type of any number more."""

    call: Callable[..., Any]
    parameters: tuple[str, ...] = ()
    rest: str | None = None


def fn(call: Callable[..., Any], *parameters: str, rest: str | None = None) -> GoFunction:
    return GoFunction(call, parameters, rest)


def text_fn(call: Callable[..., Any], count: int = 1) -> GoFunction:
    """A function of strings."""
    return GoFunction(call, (TEXT,) * count)


def any_fn(call: Callable[..., Any], count: int = 1) -> GoFunction:
    """A function of values of any type."""
    return GoFunction(call, (ANY,) * count)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def index(value: Any, *keys: Any) -> Any:
    if value is None or value is INVALID:
        raise InvalidInputError("index of untyped nil")
    for key in keys:
        if isinstance(value, Mapping):
            value = _entry(value, key)
        elif isinstance(value, list | str) and kind_of(value) != "chan":
            sequence = to_bytes(value) if isinstance(value, str) else value
            position = _position(key, len(sequence))
            found = sequence[position]
            value = Uint8(found) if isinstance(value, str) else found
        elif value is None or value is INVALID:
            raise InvalidInputError("index of nil pointer")
        else:
            raise InvalidInputError(f"can't index item of type {type_name(value).lstrip('*')}")
    return value


def _entry(values: Mapping[Any, Any], key: Any) -> Any:
    by_any = type_name(values).startswith("map[interface {}]")
    if not by_any:
        if key is None or key is INVALID:
            raise InvalidInputError("value is nil; should be of type string")
        if not isinstance(key, str):
            raise InvalidInputError(f"value has type {type_name(key)}; should be string")
    if key in values:
        return values[key]
    return zero_element(values)


def _position(key: Any, length: int) -> int:
    if key is None or key is INVALID:
        raise InvalidInputError("cannot index slice/array with nil")
    if not isinstance(key, int) or isinstance(key, bool):
        raise InvalidInputError(f"cannot index slice/array with type {type_name(key)}")
    if not 0 <= key < length:
        raise InvalidInputError(f"index out of range: {int(key)}")
    return int(key)


def slice_of(value: Any, *bounds: Any) -> Any:
    if value is None or value is INVALID:
        raise InvalidInputError("slice of untyped nil")
    if len(bounds) > 3:
        raise InvalidInputError(f"too many slice indexes: {len(bounds)}")
    is_text = isinstance(value, str)
    if is_text and len(bounds) == 3:
        raise InvalidInputError("cannot 3-index slice a string")
    if not is_text and kind_of(value) != "slice":
        raise InvalidInputError(f"can't slice item of type {type_name(value).lstrip('*')}")
    sequence = to_bytes(value) if is_text else value
    places = [_position(bound, len(sequence) + 1) for bound in bounds]
    start, end = [*places[:2], *[0, len(sequence)][len(places) :]][:2]
    if start > end:
        raise InvalidInputError(f"invalid slice index: {start} > {end}")
    part = sequence[start:end]
    if is_text:
        return from_bytes(part)
    return type(value)(part) if isinstance(value, TypedList) else part


def length(value: Any) -> int:
    value = plain(value)
    if isinstance(value, str):
        return len(to_bytes(value))
    if isinstance(value, list | Mapping):
        return len(value)
    if isinstance(value, GoChannel):
        return len(value.numbers)
    if value is None or value is INVALID:
        raise InvalidInputError("len of nil pointer")
    raise InvalidInputError(f"len of type {type_name(value).lstrip('*')}")


def call(function: Any, *arguments: Any, shown: str = "") -> Any:
    """`shown` is the function's expression in the template."""
    if function is None or function is INVALID:
        raise InvalidInputError("call of nil")
    if not callable(function):
        shown = shown or formatted(function)
        raise InvalidInputError(f"non-function {shown} of type {type_name(function)}")
    return function(*arguments)


_HTML = {"\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
_JS = {
    "\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026",
    "=": "\\u003D",
}  # fmt: skip


_NO_VALUE = "<no value>"


def _printed(values: tuple[Any, ...]) -> str:
    """The arguments as `html`, `js` and `urlquery` take them."""
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return sprint([_NO_VALUE if value is None or value is INVALID else value for value in values])


def html(*values: Any) -> str:
    return "".join(_HTML.get(each, each) for each in _printed(values))


def js(*values: Any) -> str:
    parts = []
    for each in _printed(values):
        if each in _JS:
            parts.append(_JS[each])
        elif each < " " or (ord(each) >= 128 and not each.isprintable()):
            parts.append(f"\\u{ord(each):04X}")
        else:
            parts.append(each)
    return "".join(parts)


def urlquery(*values: Any) -> str:
    import urllib.parse  # seldom used; not on the start path of the process that renders

    return urllib.parse.quote_plus(to_bytes(_printed(values)), safe="~")


_BASIC = ("bool", "float", "int", "string")


def _basic_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    return "string" if isinstance(value, str) else ""


def _incompatible(first: Any, second: Any) -> InvalidInputError:
    names = f"{type_name(first)} and {type_name(second)}"
    return InvalidInputError(f"incompatible types for comparison: {names}")


def equal(first: Any, *others: Any) -> bool:
    """Returns whether `first` equals any of `others`; raises InvalidInputError for values that Go
    does not compare."""
    if not others:
        raise InvalidInputError("missing argument for comparison")
    first = plain(first)
    return any(_is_same(first, plain(other)) for other in others)


def _is_same(first: Any, other: Any) -> bool:
    kind = _basic_kind(first)
    if kind != _basic_kind(other):
        if _is_no_value(first) or _is_no_value(other):
            return False
        raise _incompatible(first, other)
    if kind:
        return bool(first == other)
    if not (_is_no_value(first) or _is_no_value(other) or kind_of(first) == kind_of(other)):
        raise InvalidInputError(
            f"non-comparable types {formatted(first)}: {type_name(first)}, {type_name(other)}: "
            f"{formatted(other)}"
        )
    if is_nil(first) or is_nil(other):
        return is_nil(first) and is_nil(other)
    if isinstance(other, list | Mapping):
        raise InvalidInputError(f"non-comparable type {formatted(other)}: {type_name(other)}")
    return first is other or (isinstance(first, GoStruct) and _is_same_struct(first, other))


def _is_no_value(value: Any) -> bool:
    return value is None or value is INVALID


def _is_same_struct(first: GoStruct, other: GoStruct) -> bool:
    """Pointers are the same only where they point to one value."""
    if first.go_type.startswith("*") or type_name(first) != type_name(other):
        return False
    return first.go_identity() == other.go_identity()


def less(first: Any, second: Any) -> bool:
    first, second = plain(first), plain(second)
    kind, other = _basic_kind(first), _basic_kind(second)
    if not kind or not other:
        raise InvalidInputError("invalid type for comparison")
    if kind != other:
        raise _incompatible(first, second)
    if kind == "bool":
        raise InvalidInputError("invalid type for comparison")
    return bool(to_bytes(first) < to_bytes(second) if kind == "string" else first < second)


def _and(*values: Any) -> Any:
    return next((value for value in values if not truth(value)), values[-1])


def _or(*values: Any) -> Any:
    return next((value for value in values if truth(value)), values[-1])


def _less_or_equal(first: Any, second: Any) -> bool:
    return less(first, second) or equal(first, second)


GO_FUNCTIONS: dict[str, GoFunction] = {
    "and": fn(_and, ANY, rest=ANY),
    "or": fn(_or, ANY, rest=ANY),
    "not": any_fn(lambda value: not truth(value)),
    "call": fn(call, ANY, rest=ANY),
    "html": fn(html, rest=ANY),
    "js": fn(js, rest=ANY),
    "urlquery": fn(urlquery, rest=ANY),
    "index": fn(index, ANY, rest=ANY),
    "slice": fn(slice_of, ANY, rest=ANY),
    "len": any_fn(length),
    "print": fn(lambda *values: sprint(values), rest=ANY),
    "println": fn(lambda *values: sprintln(values), rest=ANY),
    "printf": fn(lambda pattern, *values: sprintf(pattern, values), TEXT, rest=ANY),
    "eq": fn(equal, ANY, rest=ANY),
    "ne": any_fn(lambda first, second: not equal(first, second), 2),
    "lt": any_fn(less, 2),
    "le": any_fn(_less_or_equal, 2),
    "gt": any_fn(lambda first, second: not _less_or_equal(first, second), 2),
    "ge": any_fn(lambda first, second: not less(first, second), 2),
}

__all__ = ["ANY", "GO_FUNCTIONS", "TEXT", "GoFunction", "Int64", "any_fn", "fn", "text_fn"]
