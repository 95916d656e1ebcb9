"""Joins what several configuration files say, the later ones over the earlier ones."""

from __future__ import annotations

from typing import Any

from orchgit.configuration.keys import BlockValues, ConfigBlock, ConfigKey, Kind


def merge(shape: ConfigBlock, earlier: BlockValues, later: BlockValues) -> BlockValues:
    """Returns the values of both; `Kind` says which wins. Neither argument is changed."""
    values = dict(earlier.values)
    for name, value in later.values.items():
        key = shape.keys[name]
        assert isinstance(key, ConfigKey)
        values[name] = _merged(key.kind, values[name], value) if name in values else value
    blocks = dict(earlier.blocks)
    for name, inner in later.blocks.items():
        block = shape.keys[name]
        assert isinstance(block, ConfigBlock)
        blocks[name] = merge(block, blocks.get(name, BlockValues()), inner)
    labelled = {name: dict(named) for name, named in earlier.labelled.items()}
    for name, named in later.labelled.items():
        block = shape.keys[name]
        assert isinstance(block, ConfigBlock)
        known = labelled.setdefault(name, {})
        for label, inner in named.items():
            fresh = block.replaced or label not in known
            known[label] = inner if fresh else merge(block, known[label], inner)
    return BlockValues(values, blocks, labelled)


def _merged(kind: Kind, earlier: Any, later: Any) -> Any:
    match kind:
        case Kind.GIVEN_INTEGER | Kind.GIVEN_SWITCH | Kind.ANY:
            return later
        case Kind.TEXTS:
            return [*earlier, *later]
        case Kind.MAP:
            return {**earlier, **later}
        case _:
            return later or earlier
