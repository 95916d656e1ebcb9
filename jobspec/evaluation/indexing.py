"""`.name` and `[key]` on values."""

from __future__ import annotations

from jobspec.errors import HclError, did_you_mean
from jobspec.evaluation.numbers import Null
from jobspec.evaluation.scope import POISON, SilentError
from jobspec.evaluation.values import (
    ConvertError,
    Map,
    SetOf,
    Value,
    elements,
    mapping,
    to_number,
    to_string,
    type_name_of,
)
from jobspec.hcl import tree


def walk_steps(value: Value, steps: list[tree.Step]) -> Value:
    """The value at the end of the steps; raises HclError at the step that leads nowhere."""
    for step in steps:
        if step.is_attr:
            value = _attribute(value, step)
        else:
            value = index_at(value, step.key, step.start, step.end)
        if value is POISON:
            raise SilentError("", step.start, step.end)
    return value


def _attribute(value: Value, step: tree.Step) -> Value:
    pairs = mapping(value)
    name = step.key
    if pairs is not None:
        if name in pairs:
            return pairs[name]
        if type(value) is Map:
            message = (
                f'Missing map element: this map does not have an element with the key "{name}".'
            )
        else:
            message = (
                f'Unsupported attribute: this object does not have an attribute named "{name}".'
            )
        raise HclError(message, step.start, step.end, did_you_mean(name, pairs))
    if type(value) is Null:
        message = "Attempt to get attribute from null value: it does not have any attributes."
    elif elements(value) is not None:
        message = f'Unsupported attribute: cannot access "{name}" on a {type_name_of(value)}.'
    else:
        message = "Unsupported attribute: this value does not have any attributes."
    raise HclError(message, step.start, step.end)


def index_at(collection: Value, key: Value, start: int, end: int) -> Value:
    if type(collection) is Null:
        raise HclError("Attempt to index null value.", start, end)
    if type(key) is Null:
        raise HclError("Invalid index: can't use a null value as an indexing key.", start, end)
    try:
        return index_value(collection, key)
    except ConvertError as error:
        raise HclError(f"Invalid index: {error}.", start, end) from None


def index_value(collection: Value, key: Value) -> Value:
    """`collection[key]`; raises ConvertError saying why there is none."""
    pairs = mapping(collection)
    if pairs is not None:
        text = to_string(key)
        if text not in pairs:
            raise ConvertError("the given key does not identify an element in this collection")
        return pairs[text]
    if type(collection) is SetOf:
        raise ConvertError("elements of a set have no index or key")
    items = elements(collection)
    if items is None:
        raise ConvertError("this value does not have any indices")
    number = to_number(key)
    if type(number) is not int:
        raise ConvertError("a whole number is required")
    if number < 0:
        raise ConvertError("a negative number is not a valid index for a sequence")
    if number >= len(items):
        raise ConvertError("the given index is not less than the length of the collection")
    return items[number]
