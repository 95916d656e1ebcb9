"""Lists, tuples and sets."""

from __future__ import annotations

import itertools

from jobspec.evaluation.numbers import Number, add
from jobspec.evaluation.values import (
    List,
    SetOf,
    Value,
    convert,
    distinct,
    elements,
    is_null,
    sort_key,
    type_of,
    unify,
)
from jobspec.functions.signature import (
    MAX_ITEMS,
    ArgumentError,
    CallContext,
    Function,
    FunctionError,
    Param,
    any_value,
    list_of,
    num,
)

_MAX_RANGE = 1024


def _chunklist(items: List, size: Number) -> Value:
    if type(size) is not int:
        raise FunctionError("invalid size: a whole number is required")
    if size < 0:
        raise FunctionError("the size argument must be positive")
    inner = ("list", items.element)
    step = size or max(1, len(items.items))
    chunks = [
        List(items.element, items.items[i : i + step]) for i in range(0, len(items.items), step)
    ]
    return List(inner, chunks)


def _concat(*sequences: Value) -> Value:
    if not sequences:
        raise FunctionError("at least one argument is required")
    joined: list[Value] = []
    for index, sequence in enumerate(sequences):
        items = elements(sequence)
        if items is None or type(sequence) is SetOf:
            raise ArgumentError(index, "all arguments must be lists or tuples")
        joined.extend(items)
        if len(joined) > MAX_ITEMS:
            raise FunctionError(f"more than {MAX_ITEMS} items")
    if all(type(sequence) is List for sequence in sequences):
        common = unify([sequence.element for sequence in sequences])
        if common is not None:
            return List(common, [convert(item, common) for item in joined])
    return tuple(joined)


def _flatten(value: Value) -> Value:
    if elements(value) is None:
        raise FunctionError("can only flatten lists, sets and tuples")
    return tuple(_flat(value))


def _flat(value: Value) -> list[Value]:
    flat: list[Value] = []
    for item in elements(value) or ():
        if elements(item) is None:
            flat.append(item)
        else:
            flat.extend(_flat(item))
        if len(flat) > MAX_ITEMS:
            raise FunctionError(f"more than {MAX_ITEMS} items")
    return flat


def _range(*args: Number) -> Value:
    if not 1 <= len(args) <= 3:
        raise FunctionError("must have one, two, or three arguments")
    start, end = (0, args[0]) if len(args) == 1 else args[:2]
    step: Number = args[2] if len(args) == 3 else (1 if start <= end else -1)
    if len(args) == 3 and step != 0 and start != end and (step < 0) != (end < start):
        towards = "less than start when step is negative"
        if step > 0:
            towards = "greater than start when step is positive"
        raise ArgumentError(1, f"end must be {towards}")
    values: list[Value] = []
    value = start
    while (value > end) if step < 0 else (value < end):
        if len(values) >= _MAX_RANGE:
            raise FunctionError(
                f"more than {_MAX_RANGE} values were generated; either decrease the difference "
                "between start and end or use a smaller step"
            )
        values.append(value)
        value = add(value, step)
    return List("number", values)


def _set_items(sets: tuple[SetOf, ...]) -> tuple[object, list[list[Value]]]:
    common = unify([each.element for each in sets])
    if common is None:
        raise FunctionError("all sets must have the same element type")
    return common, [[convert(item, common) for item in each.items] for each in sets]


def _setunion(*sets: SetOf) -> Value:
    common, items = _set_items(sets)
    return SetOf(common, itertools.chain(*items))


def _setintersection(*sets: SetOf) -> Value:
    common, items = _set_items(sets)
    keys = set.intersection(*({sort_key(item) for item in each} for each in items))
    return SetOf(common, [item for item in items[0] if sort_key(item) in keys])


def _setproduct(context: CallContext, *sets: Value) -> Value:
    if len(sets) < 2:
        raise FunctionError("at least two arguments are required")
    columns = []
    size = 1
    for index, each in enumerate(sets):
        items = elements(each)
        if items is None:
            raise ArgumentError(index, "a set or a list is required")
        common = unify([type_of(item) for item in items])
        if common is None:
            raise ArgumentError(index, "all elements must be of the same type")
        columns.append([convert(item, common) for item in items])
        size *= len(items)
        if size > MAX_ITEMS:
            raise FunctionError(f"more than {MAX_ITEMS} combinations")
    context.budget.charge(size * len(columns))
    rows = list(itertools.product(*columns))
    row_type = ("tuple", tuple(unify([type_of(i) for i in c]) for c in columns))
    if all(type(each) is SetOf for each in sets):
        return SetOf(row_type, rows)
    return List(row_type, list(rows))


def _slice(value: Value, start: Number, end: Number) -> Value:
    items = elements(value)
    if items is None or type(value) is SetOf:
        raise ArgumentError(0, "must be a list or tuple value")
    if type(start) is not int or start < 0:
        raise ArgumentError(1, "start index must be a whole number of zero or more")
    if type(end) is not int or end < 0:
        raise ArgumentError(2, "end index must be a whole number of zero or more")
    if end > len(items):
        raise ArgumentError(2, "end index must not be greater than the length of the list")
    if start > end:
        raise ArgumentError(1, "start index must not be greater than end index")
    part = items[start:end]
    return List(value.element, list(part)) if type(value) is List else tuple(part)


def _sort(items: List) -> Value:
    if any(is_null(item) for item in items.items):
        raise FunctionError("given list element is null; a null string cannot be sorted")
    return List("string", sorted(items.items))


FUNCTIONS = {
    "chunklist": Function(_chunklist, (list_of("list"), num("size"))),
    "compact": Function(
        lambda value: List("string", [i for i in value.items if i and not is_null(i)]),
        (list_of("list", "string"),),
    ),
    "concat": Function(_concat, rest=any_value("seqs")),
    "distinct": Function(
        lambda value: List(value.element, distinct(value.items)), (list_of("list"),)
    ),
    "flatten": Function(_flatten, (any_value("list"),)),
    "range": Function(_range, rest=num("params")),
    "setintersection": Function(
        _setintersection,
        (Param("first_set", ("set", "dynamic")),),
        Param("other_sets", ("set", "dynamic")),
    ),
    "setproduct": Function(_setproduct, rest=any_value("sets"), in_context=True),
    "setunion": Function(
        _setunion,
        (Param("first_set", ("set", "dynamic")),),
        Param("other_sets", ("set", "dynamic")),
    ),
    "slice": Function(_slice, (any_value("list"), num("start_index"), num("end_index"))),
    "sort": Function(_sort, (list_of("list", "string"),)),
}
