"""Joins values of command line flags with those of the configuration files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.loading import LoadedConfig
from orchgit.configuration.merging import merge
from orchgit.configuration.reading import FileReader
from orchgit.errors import InvalidInputError
from orchgit.hcl1.tree import Hcl1Body, Hcl1Item, Key, Literal, Position, Value

_PLACE = Position("-", 1, 1)


def add_flags(loaded: LoadedConfig, given: Mapping[str, str | bool | Sequence[str]]) -> None:
    """Joins values, by the path of their key, over those of the files; a sequence is a map's
    KEY=VALUE. Raises InvalidInputError for a value that the key does not take."""
    for path, value in given.items():
        tree: Value
        if isinstance(value, str | bool):
            text = str(value).lower() if isinstance(value, bool) else value
            tree = Literal(value, text, _PLACE)
        else:
            tree = Hcl1Body(tuple(_pair(path, each) for each in value), _PLACE)
        for name in reversed(path.split(".")):
            tree = Hcl1Body((Hcl1Item((Key(name, _PLACE),), tree),), _PLACE)
        assert isinstance(tree, Hcl1Body)
        reader = FileReader(CONFIGURATION)
        values = reader.block(CONFIGURATION, tree)
        told = [each.text for each in reader.problems] + [each.text for each in reader.faults]
        if told:
            wrong = told[0].removeprefix("cannot use ")
            raise InvalidInputError(f"cannot use the flag for {wrong}")
        loaded.values = merge(CONFIGURATION, loaded.values, values)


def _pair(path: str, text: str) -> Hcl1Item:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInputError(f'cannot use the flag for {path}: "{text}" is not KEY=VALUE')
    return Hcl1Item((Key(name, _PLACE),), Literal(value, value, _PLACE))
