"""YAML as Go's yaml.v2 reads and writes it: YAML 1.1, `yes` and `on` are booleans, `0o17` is 15."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

from orchgit.errors import InvalidInputError
from orchgit.go_templates.printing import float_text
from orchgit.go_templates.values import INVALID, AnyMap, GoStruct, type_name

_TRUE = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
_FALSE = frozenset(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_SPECIAL = {
    ".inf": math.inf, ".Inf": math.inf, ".INF": math.inf, "+.inf": math.inf, "-.inf": -math.inf,
    "-.Inf": -math.inf, "-.INF": -math.inf, ".nan": math.nan, ".NaN": math.nan, ".NAN": math.nan,
}  # fmt: skip
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TAGS = {str: "str", int: "int", float: "float", bool: "bool", type(None): "null"}
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([Tt ].*)?")


def resolved(text: str) -> Any:
    """What an unquoted scalar is; a date stays a string."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text in _SPECIAL:
        return _SPECIAL[text]
    plain = text.replace("_", "")
    if text[0] in "+-.0123456789":
        if _INTEGER.fullmatch(plain):
            value = _integer(plain)
            return value if -(1 << 63) <= value < 1 << 64 else float(value)
        if _FLOAT.fullmatch(plain):
            return float(plain)
    return text


def _integer(text: str) -> int:
    digits = text.lstrip("+-").lower()
    if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
        digits = f"0o{digits[1:]}"
    return -int(digits, 0) if text.startswith("-") else int(digits, 0)


class _Loader(yaml.SafeLoader):
    """Reads scalars as Go does; maps are `map[interface {}]interface {}`."""


def _scalar(loader: _Loader, node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    if node.style in ("'", '"', "|", ">"):
        return text
    return resolved(text)


def _map(loader: _Loader, node: yaml.MappingNode) -> Any:
    loader.flatten_mapping(node)
    found = AnyMap()
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, list | dict):
            raise InvalidInputError("yaml: invalid map key")
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_Loader.yaml_implicit_resolvers = {"<": [("tag:yaml.org,2002:merge", re.compile("<<"))]}
_Loader.add_constructor("tag:yaml.org,2002:str", _scalar)
_Loader.add_constructor("tag:yaml.org,2002:map", _map)
_Loader.add_constructor("tag:yaml.org,2002:null", _scalar)


def from_yaml(text: str) -> Any:
    """Raises InvalidInputError. Empty text is an empty map."""
    if not text:
        return {}
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InvalidInputError(f"yaml: {place}{problem}") from None


class _PlainText(str):
    """Stands without quotes: a time, a duration."""


class _Dumper(yaml.SafeDumper):
    """Writes what Go's would, so that Go reads the same back."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """The tag that a plain scalar has without being named."""
        if kind is yaml.ScalarNode and implicit[0]:
            return f"tag:yaml.org,2002:{_TAGS[type(resolved(value))]}"
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif not isinstance(resolved(text), str) or _BASE_60.fullmatch(text) or _DATE.fullmatch(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _write_float(dumper: _Dumper, value: float) -> yaml.ScalarNode:
    shown = {math.inf: ".inf", -math.inf: "-.inf"}.get(value)
    if shown is None:
        shown = ".nan" if math.isnan(value) else float_text(value)
    kind = _TAGS[type(resolved(shown))]  # a whole one has no point
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", shown)


def _write_plain(dumper: _Dumper, text: _PlainText) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text))


_Dumper.add_representer(str, _write_text)
_Dumper.add_representer(_PlainText, _write_plain)
_Dumper.add_representer(float, _write_float)


def to_yaml(value: Any) -> str:
    """Returns the text without a newline at its end. Raises InvalidInputError for what YAML does
    not have."""
    try:
        text: str = yaml.dump(
            _plain(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20
        )
    except yaml.representer.RepresenterError as error:
        raise InvalidInputError(f"cannot marshal type: {type_name(error.args[-1])}") from None
    return text.removesuffix("...\n").strip()


def _plain(value: Any) -> Any:
    if value is INVALID:
        return None
    if hasattr(value, "go_yaml"):
        return _PlainText(value.go_yaml())
    if isinstance(value, GoStruct):
        return {name.lower(): _plain(each) for name, each in value.go_fields().items()}
    if isinstance(value, Mapping):
        keys = sorted(value, key=_natural)
        return {_plain(key): _plain(value[key]) for key in keys}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    return value


_RUN = re.compile(r"\d+|\D+")


def _natural(key: Any) -> Any:
    """Numbers in keys count by their value, and letters come after other characters."""
    if not isinstance(key, str):
        return (0, key) if isinstance(key, int | float) else (0, 0)
    return (
        1,
        [
            (0, int(run), "") if run.isdigit() else (1, 0, [(c.isalpha(), c) for c in run])
            for run in _RUN.findall(key)
        ],
    )
