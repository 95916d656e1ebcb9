"""`spew_*`: values with their types, for people who look for a fault in a template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchgit.go_quote import quote
from orchgit.go_templates.functions import ANY, GoFunction, fn
from orchgit.go_templates.printing import formatted, sprintf
from orchgit.go_templates.values import GoStruct, kind_of, sorted_keys, to_bytes, type_name

_VERB = re.compile(r"%(#\+|\+#|#|\+)?v")


def _dumped(value: Any, indent: str = "") -> str:
    name = type_name(value) if value is not None else "interface {}"
    inner = indent + " "
    if value is None:
        return f"({name}) <nil>"
    if isinstance(value, str):
        return f"({name}) (len={len(to_bytes(value))}) {quote(value)}"
    if isinstance(value, list):
        lines = "".join(f"{inner}{_dumped(each, inner)},\n" for each in value)
        lines = lines[:-2] + "\n" if lines else ""
        return f"({name}) (len={len(value)} cap={len(value)}) {{\n{lines}{indent}}}"
    fields = value.go_fields() if isinstance(value, GoStruct) else value
    if isinstance(fields, Mapping):
        size = "" if isinstance(value, GoStruct) else f"(len={len(fields)}) "
        shown = [
            f"{inner}{key if isinstance(value, GoStruct) else _dumped(key)}: "
            f"{_dumped(fields[key], inner)}"
            for key in sorted_keys(fields)
        ]
        return f"({name}) {size}{{\n" + ",\n".join(shown) + ("\n" if shown else "") + f"{indent}}}"
    return f"({name}) {formatted(value)}"


def _typed(value: Any, is_inner: bool = False) -> str:
    """As `%#v`: the type of what is inside an interface stands before it."""
    if value is None:
        return "<nil>"
    if isinstance(value, list):
        shown = f"[{' '.join(_typed(each, type(value) is list) for each in value)}]"
    elif isinstance(value, Mapping):
        of_any = "interface {}" in type_name(value).removeprefix("map[interface {}]")
        pairs = [f"{key}:{_typed(value[key], of_any)}" for key in sorted_keys(value)]
        shown = f"map[{' '.join(pairs)}]"
    else:
        shown = formatted(value)
    return f"({type_name(value)}){shown}"


def _formatted(pattern: str, *values: Any) -> str:
    rest = list(values)
    given: list[Any] = []

    def verb(match: re.Match[str]) -> str:
        if not rest:
            return match[0]
        value = rest.pop(0)
        sharp = "#" in (match[1] or "") or kind_of(value) == "ptr"
        given.append(_typed(value) if sharp else formatted(value))
        return "%s"

    return sprintf(_VERB.sub(verb, pattern), [*given, *rest])


def _dump(*values: Any) -> str:
    return "".join(f"{_dumped(value)}\n" for value in values)


DEBUG: dict[str, GoFunction] = {
    "spew_dump": fn(lambda *values: "", rest=ANY),
    "spew_sdump": fn(_dump, rest=ANY),
    "spew_printf": fn(lambda pattern, *values: "", "string", rest=ANY),
    "spew_sprintf": fn(_formatted, "string", rest=ANY),
}
