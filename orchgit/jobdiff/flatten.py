"""The plain fields of an object as texts by name, which is what a report compares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from functools import cache

import msgspec

Leaf = Callable[[object], str | None]


def flat_fields(
    value: object,
    omit: Collection[str] = (),
    template: Mapping[str, str] | None = None,
    joined: Collection[str] = (),
) -> dict[str, str]:
    """Returns numbers, texts and booleans by name, and maps of them as `Name[key]`; None and deeper
    values are left out.

    `template` gives the fields that an object has even when they are not set; lists in `joined`
    become one text.
    """
    found: dict[str, str] = dict(template or {})
    for name, item in _items(value):
        if name in omit or item is None:
            continue
        if name in joined:
            text = ",".join(map(str, item)) if isinstance(item, list) else None
        else:
            text = as_text(item)
        if text is not None:
            found[name] = text or found.get(name, "")
        elif isinstance(item, Mapping):
            entries = ((key, as_text(each)) for key, each in item.items())
            found.update({f"{name}[{key}]": each for key, each in entries if each is not None})
    return found


def flat_tree(value: object, leaf: Leaf, prefix: str = "") -> dict[str, str]:
    """Returns a map or list flattened all the way down: `args[0]`, `mount[0][target]`.

    `leaf` gives the text of other values; a value for which it gives None is left out.
    """
    found: dict[str, str] = {}
    if isinstance(value, Mapping):
        for key, item in value.items():
            found |= flat_tree(item, leaf, f"{prefix}[{key}]" if prefix else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            found |= flat_tree(item, leaf, f"{prefix}[{number}]")
    else:
        text = leaf(value)
        if text is not None:
            found[prefix] = text
    return found


def free_form_text(value: object) -> str | None:
    """Returns a leaf of a driver's `config`: null is shown as nil, a number as Go's float64."""
    if value is None:
        return "nil"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _float_text(float(value))
    return as_text(value)


def _float_text(number: float) -> str:
    """Returns the fewest digits that tell the number from its neighbours, with an exponent where it
    would be below -4 or above 5."""
    exact = Decimal(repr(number)).normalize()
    exponent = exact.adjusted()
    if not number or -4 <= exponent < 6:
        return format(exact, "f")
    return f"{exact.scaleb(-exponent):f}e{exponent:+03d}"


def as_text(value: object) -> str | None:
    """Returns a number, text or boolean as the report shows it; None for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    return None


def _items(value: object) -> list[tuple[str, object]]:
    if isinstance(value, msgspec.Struct):
        return [(shown, getattr(value, name)) for name, shown in _names(type(value))]
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    return []


@cache
def _names(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
