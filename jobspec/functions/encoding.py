"""base64, CSV, JSON, URL and YAML."""

from __future__ import annotations

import base64
import binascii
import re

from jobspec.evaluation.values import List, Value
from jobspec.functions import json_text
from jobspec.functions.signature import CallContext, Function, FunctionError, any_value, text

_STEPS_A_YAML_CHARACTER = 3
"""PyYAML reads character by character."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _base64decode(value: str) -> str:
    stripped = value.replace("\n", "").replace("\r", "")
    if _BASE64.fullmatch(stripped) is None:
        raise FunctionError(f"failed to decode base64 data '{value}'")
    try:
        return base64.b64decode(stripped).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise FunctionError(
            "the result of decoding the provided string is not valid UTF-8"
        ) from None


def _csvdecode(context: CallContext, value: str) -> Value:
    import csv  # few job files use it; not on the start path

    context.budget.charge(len(value))

    try:
        rows = [row for row in csv.reader(value.splitlines(keepends=True), strict=True) if row]
    except csv.Error as error:
        raise FunctionError(str(error)) from None
    if not rows:
        raise FunctionError("missing header line")
    header = rows[0]
    if len(set(header)) != len(header):
        raise FunctionError("duplicate column name in the header line")
    records: list[Value] = []
    for row in rows[1:]:
        if len(row) != len(header):
            raise FunctionError(f"wrong number of fields on line {rows.index(row) + 1}")
        records.append(dict(zip(header, row, strict=True)))
    return List(("object", tuple((name, "string") for name in sorted(header))), records)


def _urlencode(value: str) -> str:
    plain = "-_.~"
    return "".join(
        chr(byte)
        if (chr(byte).isascii() and chr(byte).isalnum()) or chr(byte) in plain
        else "+"
        if byte == 0x20
        else f"%{byte:02X}"
        for byte in value.encode()
    )


def _jsondecode(context: CallContext, value: str) -> Value:
    context.budget.charge(len(value) // 2)
    return json_text.decode(value)


def _yamldecode(context: CallContext, value: str) -> Value:
    from jobspec.functions import yaml_text  # PyYAML is slow to import and seldom needed

    context.budget.charge(_STEPS_A_YAML_CHARACTER * len(value))
    return yaml_text.decode(value)


def _yamlencode(context: CallContext, value: Value) -> str:
    from jobspec.functions import yaml_text  # PyYAML is slow to import and seldom needed

    return yaml_text.encode(value, context.budget)


FUNCTIONS = {
    "base64decode": Function(_base64decode, (text(),)),
    "base64encode": Function(lambda value: base64.b64encode(value.encode()).decode(), (text(),)),
    "csvdecode": Function(_csvdecode, (text(),), in_context=True),
    "jsondecode": Function(_jsondecode, (text(),), in_context=True),
    "jsonencode": Function(json_text.encode, (any_value("val", nullable=True),)),
    "urlencode": Function(_urlencode, (text(),)),
    "yamldecode": Function(_yamldecode, (text("src"),), in_context=True),
    "yamlencode": Function(_yamlencode, (any_value("value", nullable=True),), in_context=True),
}
