"""Reads YAML (by PyYAML) into HCL's values, and writes it."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

import yaml

from jobspec.evaluation import numbers
from jobspec.evaluation.budget import Budget
from jobspec.evaluation.numbers import NULL
from jobspec.evaluation.values import Value, elements, is_null, mapping
from jobspec.functions.json_text import quote
from jobspec.functions.signature import FunctionError

_BOOLS = {
    word: value
    for words, value in (("y yes on true", True), ("n no off false", False))
    for base in words.split()
    for word in (base, base.upper(), base.capitalize())
}
_INT = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?:(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?.*)?")
_MOST_DIGITS = 500
_STR_TAG = "tag:yaml.org,2002:str"


def decode(text: str) -> Value:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise FunctionError(f"on {str(error).splitlines()[-1].strip()}") from None
    if node is None:
        raise FunctionError("missing start of document")
    return _Decoder().value(node, 0)


class _Decoder:
    def __init__(self) -> None:
        self.nodes = 0

    def value(self, node: yaml.Node, depth: int) -> Value:
        self.nodes += 1
        if depth > 100 or self.nodes > 100_000:
            raise FunctionError("the document is nested too deeply or refers to itself")
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.value(item, depth + 1) for item in node.value)
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, depth)
        assert isinstance(node, yaml.ScalarNode)
        return _scalar(node)

    def mapping(self, node: yaml.MappingNode, depth: int) -> Value:
        result: dict[str, Value] = {}
        for key_node, value_node in node.value:
            value = self.value(value_node, depth + 1)
            if key_node.value == "<<" and isinstance(value, dict):
                result = {**value, **result}
                continue
            key = self.value(key_node, depth + 1)
            if isinstance(key_node, yaml.ScalarNode) and type(key) is not str:
                key = key_node.value
            if type(key) is not str:
                raise FunctionError("a mapping key must be a string")
            result[key] = value
        return result


def _scalar(node: yaml.ScalarNode) -> Value:
    text = str(node.value)
    if node.style is not None or (node.tag == _STR_TAG and not _plain_means_more(text)):
        return text
    if text in ("", "~", "null", "Null", "NULL"):
        return NULL
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text) and len(text) < _MOST_DIGITS:
        return _integer(text.replace("_", ""))
    infinity = _INFINITY.fullmatch(text)
    if infinity:
        return -math.inf if infinity[1] == "-" else math.inf
    if _FLOAT.fullmatch(text):
        return numbers.parse(text.replace("_", "")) or 0
    if _DATE.fullmatch(text):
        return _timestamp(text)
    return text


def _plain_means_more(text: str) -> bool:
    return bool(text in _BOOLS or _INT.fullmatch(text) or _FLOAT.fullmatch(text))


def _integer(text: str) -> Value:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-").lower()
    if digits.startswith(("0x", "0b", "0o")):
        return sign * int(digits, 0)
    return sign * (int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits))


def _timestamp(text: str) -> Value:
    try:
        moment: Any = yaml.SafeLoader("").construct_yaml_timestamp(
            yaml.ScalarNode("tag:yaml.org,2002:timestamp", text)
        )
    except ValueError:
        return text
    if not isinstance(moment, datetime):
        return f"{moment.isoformat()}T00:00:00Z"
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.isoformat().replace("+00:00", "Z")


# -- writing --------------------------------------------------------------------------------


def encode(value: Value, budget: Budget) -> str:
    if _compound(value):
        return "\n".join(_lines(value, budget)) + "\n"
    if type(value) is str:
        text = _string(value, "  ")
        return text if text.endswith("\n") else text + "\n"
    ending = "" if elements(value) is not None or mapping(value) is not None else "...\n"
    return f"{_plain(value)}\n{ending}"


def _compound(value: Value) -> bool:
    return bool(elements(value)) or bool(mapping(value))


def _lines(value: Value, budget: Budget) -> list[str]:
    """Each line is written once for every level above it."""
    pairs = mapping(value)
    lines: list[str] = []
    if pairs:
        for key in sorted(pairs):
            lines.extend(_entry(f"{quote_yaml(key)}:", pairs[key], budget))
        budget.charge(len(lines), 2 * len(lines))
        return lines
    for item in elements(value) or ():
        if _compound(item):
            inner = _lines(item, budget)
            lines.append("- " + inner[0])
            lines.extend("  " + line if line else line for line in inner[1:])
        else:
            lines.extend(_scalar_lines("- ", item))
    budget.charge(len(lines), 2 * len(lines))
    return lines


def _entry(head: str, value: Value, budget: Budget) -> list[str]:
    if not _compound(value):
        return _scalar_lines(head + " ", value)
    inner = _lines(value, budget)
    indent = "  " if mapping(value) else ""
    return [head, *(indent + line if line else line for line in inner)]


def _scalar_lines(head: str, value: Value) -> list[str]:
    if type(value) is str:
        return (head + _string(value, "  ")).rstrip("\n").split("\n")
    return [head + _plain(value)]


def _string(value: str, indent: str) -> str:
    """Text of several lines as a literal block, anything else in double quotes."""
    if "\n" not in value or value.strip() == "" or value[0] in " \n\t":
        return quote_yaml(value)
    if not all(c.isprintable() or c in "\n\t" for c in value):
        return quote_yaml(value)
    body = value.removesuffix("\n")
    marker = "|" if value.endswith("\n") else "|-"
    if body.endswith("\n"):
        marker = "|+"
    lines = [indent + line if line else line for line in body.split("\n")]
    return marker + "\n" + "\n".join(lines) + "\n"


def quote_yaml(value: str) -> str:
    return quote(value).replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&")


def _plain(value: Value) -> str:
    if is_null(value):
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is str:
        return quote_yaml(value)
    if elements(value) is not None:
        return "[]"
    if mapping(value) is not None:
        return "{}"
    if isinstance(value, float):
        return ".inf" if value > 0 else "-.inf"
    return numbers.to_text(value)
