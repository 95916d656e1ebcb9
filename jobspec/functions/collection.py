"""Maps, objects and lookups."""

from __future__ import annotations

from jobspec.evaluation.indexing import index_value
from jobspec.evaluation.numbers import Number
from jobspec.evaluation.values import (
    ConvertError,
    List,
    Map,
    SetOf,
    Value,
    convert,
    elements,
    equal,
    is_null,
    mapping,
    type_of,
    unify,
)
from jobspec.functions.signature import (
    ArgumentError,
    Function,
    FunctionError,
    Param,
    any_value,
    list_of,
    num,
    text,
)


def _coalesce(*values: Value) -> Value:
    if not values:
        raise FunctionError("at least one argument is required")
    kinds = [type_of(value) for value in values]
    known = [kind for kind in kinds if kind != "dynamic"]
    common = unify(known) if known else "dynamic"
    if common is None and "dynamic" in kinds:
        # A null of no type makes the types behind it those of anything.
        before = kinds[: kinds.index("dynamic")]
        common = "dynamic" if not before or unify(before) is not None else None
    if common is None:
        raise FunctionError("all arguments must have the same type")
    for value in values:
        if not is_null(value):
            return value if common == "dynamic" else convert(value, common)
    raise FunctionError("no non-null arguments")


def _coalescelist(*values: Value) -> Value:
    if not values:
        raise FunctionError("at least one argument is required")
    for value in values:
        if type_of(value)[0] not in ("list", "tuple"):
            raise FunctionError("coalescelist arguments must be lists or tuples")
    for value in values:
        if not is_null(value) and elements(value):
            return value
    raise FunctionError("no non-null arguments")


def _contains(collection: Value, wanted: Value) -> bool:
    items = elements(collection)
    if items is None:
        raise FunctionError("argument must be list, tuple, or set")
    return any(equal(item, wanted) for item in items)


def _element(collection: Value, index: Number) -> Value:
    items = elements(collection)
    if items is None or type(collection) is SetOf:
        raise FunctionError("cannot read elements from this value: a list is required")
    if type(index) is not int:
        raise FunctionError("invalid index: a whole number is required")
    if not items:
        raise FunctionError("cannot use element function with an empty list")
    return items[index % len(items)]


def _index(collection: Value, key: Value) -> Value:
    items, pairs = elements(collection), mapping(collection)
    kind = type(collection)
    if (items is None and kind is not Map) or kind is SetOf:
        raise FunctionError("collection must be a list, a map or a tuple")
    if items is not None and type(key) in (str, bool):
        raise FunctionError(f"key for {'tuple' if kind is tuple else 'list'} must be number")
    if pairs is not None and type(key) is not str:
        raise FunctionError("key for map must be string")
    try:
        return index_value(collection, key)
    except ConvertError as error:
        raise FunctionError(str(error)) from None


def _keys(value: Value) -> Value:
    pairs = mapping(value)
    if pairs is None:
        raise ArgumentError(0, "must have map or object type")
    names = sorted(pairs)
    return List("string", list(names)) if type(value) is Map else tuple(names)


def _values(value: Value) -> Value:
    pairs = mapping(value)
    if pairs is None:
        raise FunctionError("a map or object is required as the first argument")
    items = [pairs[name] for name in sorted(pairs)]
    return List(value.element, items) if type(value) is Map else tuple(items)


def _length(value: Value) -> int:
    if type(value) is Map:
        return len(value.items)
    items = elements(value)
    if items is None:
        raise FunctionError("collection must be a list, a map or a tuple")
    return len(items)


def _lookup(value: Value, key: str, default: Value) -> Value:
    pairs = mapping(value)
    if pairs is None:
        raise ArgumentError(0, "lookup() requires a map as the first argument")
    if key in pairs:
        return pairs[key]
    if type(value) is not Map or value.element == "dynamic":
        return default
    try:
        return convert(default, value.element)
    except ConvertError:
        raise ArgumentError(2, "the default value must have the map's element type") from None


def _merge(*values: Value) -> Value:
    merged: dict[str, Value] = {}
    for value in values:
        if is_null(value):
            continue
        pairs = mapping(value)
        if pairs is None:
            raise FunctionError("arguments must be maps or objects")
        merged.update(pairs)
    kinds = {type_of(value) for value in values if not is_null(value)}
    if len(kinds) == 1:
        kind = next(iter(kinds))
        if kind[0] == "map":
            return Map(kind[1], merged)
    return merged


def _zipmap(keys: List, values: Value) -> Value:
    items = elements(values)
    if items is None or type(values) is SetOf:
        raise FunctionError("values argument must be a list or tuple value")
    if len(keys.items) != len(items):
        raise FunctionError(
            f"number of keys ({len(keys.items)}) does not match number of values ({len(items)})"
        )
    for at, key in enumerate(keys.items):
        if is_null(key):
            raise FunctionError(f"keys list has null value at index {at}")
    pairs = dict(zip(keys.items, items, strict=True))
    return Map(values.element, pairs) if type(values) is List else pairs


FUNCTIONS = {
    "coalesce": Function(_coalesce, rest=any_value("vals", nullable=True)),
    "coalescelist": Function(_coalescelist, rest=any_value("vals", nullable=True)),
    "contains": Function(_contains, (any_value("list"), any_value("value"))),
    "element": Function(_element, (any_value("list"), num("index"))),
    "index": Function(_index, (any_value("collection"), any_value("key"))),
    "keys": Function(_keys, (any_value("inputMap"),)),
    "length": Function(_length, (any_value("collection"),)),
    "lookup": Function(_lookup, (any_value("inputMap"), text("key"), any_value("default"))),
    "merge": Function(_merge, rest=Param("maps", nullable=True)),
    "values": Function(_values, (any_value("mapping"),)),
    "zipmap": Function(_zipmap, (list_of("keys", "string"), any_value("values"))),
}
