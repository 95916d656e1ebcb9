"""TOML as Go's BurntSushi/toml writes it: keys sorted, plain values before tables, which are
indented by two blanks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_templates.printing import float_text
from orchgit.go_templates.values import INVALID, AnyMap, GoStruct, type_name

_BARE = re.compile(r"[A-Za-z0-9_\-]+")


def to_toml(value: Any) -> str:
    """Returns a map as a document, and another value as it would stand behind its key. Raises
    InvalidInputError for what TOML cannot say."""
    value = _plain(value)
    if isinstance(value, AnyMap) or value is None or value is INVALID:
        raise InvalidInputError("toml: top-level values must be Go maps or structs")
    if not isinstance(value, Mapping):
        return _value(value)
    lines: list[str] = []
    _write(lines, value, (), "")
    return "\n".join(lines).strip()


def _write(lines: list[str], table: Mapping[str, Any], path: tuple[str, ...], indent: str) -> None:
    tables = []
    for name in sorted(table):
        value = _plain(table[name])
        elements = value if isinstance(value, list) and value else [value]
        if all(isinstance(each, Mapping) for each in elements):
            tables.append((name, value))
        elif value is not None and value is not INVALID:
            lines.append(f"{indent}{_key(name)} = {_value(value)}")
    for name, value in tables:
        below = (*path, name)
        title = ".".join(map(_key, below))
        for each in [value] if isinstance(value, Mapping) else value:
            if lines and not path:
                lines.append("")
            lines.append(
                f"{indent}[[{title}]]" if isinstance(value, list) else f"{indent}[{title}]"
            )
            _write(lines, _plain(each), below, f"{indent}  ")


class _PlainText(str):
    """Stands without quotes."""


def _plain(value: Any) -> Any:
    if hasattr(value, "go_yaml"):
        return _PlainText(value.go_yaml())
    return value.go_fields() if isinstance(value, GoStruct) else value


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = float_text(value).replace("+Inf", "inf").replace("-Inf", "-inf")
        return text if not text.lstrip("-").isdigit() else f"{text}.0"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, _PlainText):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{_key(name)} = {_value(value[name])}" for name in sorted(value)]
        return f"{{{', '.join(pairs)}}}"
    raise InvalidInputError(f"toml: cannot encode {type_name(value)}")
