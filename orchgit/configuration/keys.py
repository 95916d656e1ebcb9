"""The shape of a key and of a block in the table of configuration keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """How a value is written, and how the value of a later file meets that of an earlier one.

    Later texts and numbers win unless they are empty or zero; lists are appended, maps merged, and
    `false` never overrides `true`. A `GIVEN_` kind wins whatever it is, once it is written.
    """

    TEXT = "text"
    INTEGER = "integer"
    GIVEN_INTEGER = "integer, 0 too"
    NUMBER = "number"
    SWITCH = "switch"
    GIVEN_SWITCH = "switch, false too"
    DURATION = "duration"
    DURATION_TEXT = "duration, kept as text"
    TEXTS = "texts"
    REPLACED_TEXTS = "texts, replaced as a whole"
    MAP = "map"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A scalar, a list or a map; `shown_as` is its name in `/v1/agent/self` where the rule of
    `shown` does not give it, "-" if it is not shown."""

    kind: Kind
    no_effect: str = ""
    """Why the key has no effect here; "" if it is acted upon."""
    shown_as: str = ""


@dataclass(frozen=True, slots=True)
class ConfigBlock:
    """A block; `strict` refuses unknown keys as Nomad does, elsewhere they are warned of."""

    keys: Mapping[str, ConfigKey | ConfigBlock]
    strict: bool = False
    labelled: bool = False
    """Whether each block has a name; blocks of one name in several files are merged."""
    replaced: bool = False
    """Whether a later labelled block takes the place of an earlier one of the same name."""
    repeated: bool = False
    """Whether several blocks without a name may stand in one file; the key `name` tells them
    apart."""
    joined: bool = False
    """Whether one file may give the block several times."""
    no_effect: str = ""
    shown_as: str = ""


@dataclass(slots=True)
class BlockValues:
    """What the files say about one block: values by key, and blocks inside."""

    values: dict[str, object] = field(default_factory=dict)
    blocks: dict[str, BlockValues] = field(default_factory=dict)
    labelled: dict[str, dict[str, BlockValues]] = field(default_factory=dict)


def walk(block: ConfigBlock, prefix: str = "") -> list[tuple[str, ConfigKey | ConfigBlock]]:
    """Returns every key and block below a block with its path, as `client.reserved.cpu`."""
    found: list[tuple[str, ConfigKey | ConfigBlock]] = []
    for name, inner in block.keys.items():
        found.append((prefix + name, inner))
        if isinstance(inner, ConfigBlock):
            found += walk(inner, f"{prefix}{name}.")
    return found
