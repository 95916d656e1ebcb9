"""A config file's text to the plain tree that its structs are made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from jobspec.errors import Diagnostics, HclError, SourceText
from jobspec.evaluate import Scope
from jobspec.free_form import decode_free
from jobspec.functions.call import caller
from jobspec.functions.signature import CallContext
from jobspec.hcl.parser import parse_body
from orchgit.errors import InvalidInputError

MAX_CONFIG_BYTES = 1024 * 1024


def read_tree(content: bytes, name: str) -> dict[str, Any]:
    """HCL, or JSON where the text starts with a brace. Raises JobFileError, InvalidInputError."""
    if len(content) > MAX_CONFIG_BYTES:
        raise InvalidInputError(
            f"cannot read config {name}: it is larger than {MAX_CONFIG_BYTES} bytes"
        )
    try:
        text = content.decode()
        if text.lstrip().startswith("{"):
            return msgspec.json.decode(content, type=dict[str, Any])
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise InvalidInputError(f"cannot read config {name}: {error}") from error
    return _read_hcl(text, name)


def _read_hcl(text: str, name: str) -> dict[str, Any]:
    source = SourceText(name, text)
    diagnostics = Diagnostics(source)
    body = parse_body(source, diagnostics)
    diagnostics.raise_if_any()
    scope = Scope({}, text, caller(CallContext(None)), runtime=False)

    def report(error: HclError) -> None:
        diagnostics.add(error)

    tree = decode_free(body, scope, report)
    diagnostics.raise_if_any()
    return tree


def shaped(value: Any, kind: Any) -> Any:
    """`value` with blocks in the form that `kind` has them.

    A block is read as a list of maps: one where the struct has one block, and by label where it has
    a map of blocks. A key given twice keeps its last value.
    """
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        merged = _merged(value)
        return (
            {key: shaped(item, hints.get(key, Any)) for key, item in merged.items()}
            if isinstance(merged, dict)
            else merged
        )
    if get_origin(kind) is dict:
        (_, item_kind), merged = get_args(kind), _merged(value)
        if isinstance(merged, dict):
            return {key: shaped(item, item_kind) for key, item in merged.items()}
    return value


def _merged(value: Any) -> Any:
    """A list of maps as one map."""
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        return value
    merged: dict[str, Any] = {}
    for item in value:
        merged.update(item)
    return merged
