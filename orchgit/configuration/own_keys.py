"""Makes a part of the table of keys from the struct that takes its values: orchgit's own blocks."""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from orchgit.configuration.keys import ConfigBlock, ConfigKey, Kind

_KINDS = {
    str: Kind.TEXT,
    int: Kind.GIVEN_INTEGER,
    float: Kind.NUMBER,
    bool: Kind.GIVEN_SWITCH,
    int | str: Kind.TEXT,
}


def block_of(section: type[msgspec.Struct], labelled: bool = False) -> ConfigBlock:
    """Returns a strict block with the struct's fields; a map of structs is a labelled block."""
    keys: dict[str, ConfigKey | ConfigBlock] = {}
    for name, hint in get_type_hints(section).items():
        kind, inner = _without_none(hint), get_args(hint)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            keys[name] = block_of(kind)
        elif get_origin(kind) is dict and issubclass(inner[1], msgspec.Struct):
            keys[name] = block_of(inner[1], labelled=True)
        elif get_origin(kind) is dict:
            keys[name] = ConfigKey(Kind.MAP)
        elif get_origin(kind) is list:
            keys[name] = ConfigKey(Kind.TEXTS)
        else:
            keys[name] = ConfigKey(_KINDS[kind])
    return ConfigBlock(keys, strict=True, labelled=labelled, shown_as="-")


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 else hint
