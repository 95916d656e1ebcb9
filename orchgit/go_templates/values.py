"""Go's values as Python has them: the types that Go distinguishes and Python does not.

A plain `int`, `float`, `str`, `bool`, `list` or `dict` is Go's int, float64, string, bool,
[]interface {} or map[string]interface {}; None is nil. A string may hold bytes that are no UTF-8 as
surrogates (`surrogateescape`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar


class Invalid:
    """Go's zero `reflect.Value`: no value at all, unlike nil."""

    def __bool__(self) -> bool:
        return False


INVALID = Invalid()


class Int64(int):
    __slots__ = ()
    go_type: ClassVar[str] = "int64"


class Uint64(int):
    go_type: ClassVar[str] = "uint64"


class Uint8(int):
    go_type: ClassVar[str] = "uint8"


class Rune(int):
    go_type: ClassVar[str] = "int32"


class TypedList(list[Any]):
    """A slice whose elements are of one type; `zero` is its element's zero value."""

    go_type: ClassVar[str] = "[]interface {}"
    is_nil: ClassVar[bool] = False


class NilList(TypedList):
    """The nil slice: it has no elements, and equals nil."""

    is_nil = True


class Strings(TypedList):
    go_type: ClassVar[str] = "[]string"


class NilStrings(Strings):
    is_nil = True


class Lists(TypedList):
    go_type: ClassVar[str] = "[][]interface {}"


class Ints(TypedList):
    go_type: ClassVar[str] = "[]int"


class GoChannel:
    """What `loop` gives: numbers that are made one by one."""

    go_type: ClassVar[str] = "<-chan int64"

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers


class StringMap(dict[str, Any]):
    go_type: ClassVar[str] = "map[string]string"
    zero: ClassVar[Any] = ""


class AnyMap(dict[Any, Any]):
    """What YAML's maps are."""

    go_type: ClassVar[str] = "map[interface {}]interface {}"
    zero: ClassVar[Any] = None


class GoStruct:
    """A struct or an object with methods. Subclasses name their Go type."""

    go_type: ClassVar[str] = "struct {}"

    def go_field(self, name: str) -> Any:
        """The field's value; INVALID without such a field."""
        return self.go_fields().get(name, INVALID)

    def go_method(self, name: str) -> Callable[..., Any] | None:
        """The method as a function of its arguments."""
        return None

    def go_fields(self) -> Mapping[str, Any]:
        """The exported fields in their order."""
        return {}

    def go_string(self) -> str | None:
        """What it is where a string is wanted; None: it is no string."""
        return None

    def go_identity(self) -> object:
        """Returns what decides whether two of the type are equal."""
        return dict(self.go_fields())

    def go_text(self) -> str | None:
        """What its String method returns; None without one."""
        return None

    def go_json(self) -> Any:
        """What its JSON is made of."""
        return dict(self.go_fields())


class NamedInt(int):
    """A whole number of a named type, which prints as a text of its own."""

    go_type: ClassVar[str] = "int"

    def go_text(self) -> str:
        raise NotImplementedError

    def go_method(self, name: str) -> Callable[..., Any] | None:
        return self.go_text if name == "String" else None


def stringer_text(value: object) -> str | None:
    """Returns what the value's String method returns, or None for a value without one."""
    return value.go_text() if isinstance(value, GoStruct | NamedInt) else None


def is_nil(value: object) -> bool:
    """Returns whether the value equals nil."""
    return value is None or value is INVALID or getattr(value, "is_nil", False)


def type_name(value: object) -> str:
    """The value's type as `%T` prints it."""
    if value is None:
        return "<nil>"
    named = getattr(value, "go_type", None)
    if named is not None:
        return str(named)
    if isinstance(value, bool):
        return "bool"
    for python_type, name in _PLAIN:
        if isinstance(value, python_type):
            return name
    return "func()" if callable(value) else type(value).__name__


def kind_of(value: object) -> str:
    """The value's kind as package reflect names it."""
    if value is None or value is INVALID:
        return "invalid"
    if isinstance(value, GoStruct):
        return "ptr" if value.go_type.startswith("*") else "struct"
    if isinstance(value, GoChannel):
        return "chan"
    if isinstance(value, list):
        return "slice"
    if isinstance(value, Mapping):
        return "map"
    return "func" if callable(value) else type_name(value)


def truth(value: object) -> bool:
    """Whether Go's `if` takes the value as true: empty, zero and nil are false, structs true."""
    if value is None or value is INVALID:
        return False
    return True if isinstance(value, GoStruct) or callable(value) else bool(value)


def zero_element(value: object) -> Any:
    """The zero value of a map's elements."""
    return getattr(value, "zero", None)


def plain(value: Any) -> Any:
    """The value, or the string that it stands for."""
    text = value.go_string() if isinstance(value, GoStruct) else None
    return value if text is None else text


def to_bytes(text: str) -> bytes:
    """The bytes of Go's string."""
    return text.encode("utf-8", "surrogateescape")


def from_bytes(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def sorted_keys(values: Mapping[Any, Any]) -> list[Any]:
    """The keys as package fmt sorts them: numbers before strings, nil first."""
    return sorted(values, key=_order)


def items_of(values: Any) -> Iterable[tuple[Any, Any]] | None:
    """What `range` gives of the value: (key, element) of each; None for what has no elements."""
    if isinstance(values, Mapping):
        return [(key, values[key]) for key in sorted_keys(values)]
    if isinstance(values, list):
        return enumerate(values)
    if isinstance(values, GoChannel):
        return enumerate(map(Int64, values.numbers))
    if isinstance(values, int) and not isinstance(values, bool):
        of_type = type(values)
        return ((number, of_type(number)) for number in range(values))
    return () if values is None or values is INVALID else None


def _order(key: Any) -> tuple[int, Any]:
    if key is None:
        return 0, 0
    if isinstance(key, bool):
        return 3, key
    if isinstance(key, int | float):
        return 1, key
    return 2, to_bytes(key) if isinstance(key, str) else str(key).encode()


_PLAIN: tuple[tuple[type, str], ...] = (
    (int, "int"),
    (float, "float64"),
    (str, "string"),
    (list, "[]interface {}"),
    (Mapping, "map[string]interface {}"),
)
