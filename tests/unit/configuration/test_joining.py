"""How several files are joined, against a model: each key by itself, one file after the other."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.keys import BlockValues, ConfigBlock, Kind
from orchgit.configuration.loading import load

Path_ = tuple[str, ...]
LAST_WINS = (Kind.GIVEN_INTEGER, Kind.GIVEN_SWITCH)
"""Kinds whose values count whatever they are, 0 and false too."""
VALUES: Mapping[Kind, st.SearchStrategy[Any]] = {
    Kind.TEXT: st.sampled_from(["", "a", "b"]),
    Kind.INTEGER: st.integers(0, 2),
    Kind.GIVEN_INTEGER: st.integers(0, 2),
    Kind.NUMBER: st.sampled_from([0.0, 0.5, 2.0]),
    Kind.SWITCH: st.booleans(),
    Kind.GIVEN_SWITCH: st.booleans(),
    Kind.DURATION: st.sampled_from(["0s", "1s", "2m"]),
    Kind.DURATION_TEXT: st.sampled_from(["1s", "2m"]),
    Kind.TEXTS: st.lists(st.sampled_from("ab"), max_size=2),
    Kind.REPLACED_TEXTS: st.lists(st.sampled_from("ab"), max_size=2),
    Kind.MAP: st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2),
}


def leaves(block: ConfigBlock, path: Path_ = ()) -> list[tuple[Path_, Kind]]:
    """Every key that is no block, with labels "one" and "two" in the paths of labelled blocks."""
    found: list[tuple[Path_, Kind]] = []
    for name, key in block.keys.items():
        if isinstance(key, ConfigBlock):
            labels: Sequence[Path_] = [("one",), ("two",)] if key.labelled else [()]
            for label in () if key.repeated else labels:
                found += leaves(key, (*path, name, *label))
        elif key.kind in VALUES:
            found.append(((*path, name), key.kind))
    return found


KINDS = dict(leaves(CONFIGURATION))
REPLACED = {("client", "host_volume"), ("client", "host_network"), ("plugin",)}
KEYS = st.sampled_from(sorted(set(KINDS.values()), key=str)).flatmap(
    lambda kind: st.sampled_from(sorted(path for path in KINDS if KINDS[path] is kind))
)
"""Kinds are as likely as each other, however many keys they have."""
FILES = st.lists(KEYS, min_size=1, max_size=5, unique=True).flatmap(
    lambda paths: st.lists(
        st.fixed_dictionaries({}, optional={path: VALUES[KINDS[path]] for path in paths}),
        max_size=4,
    )
)
"""Files about the same few keys."""


def tree_of(file: Mapping[Path_, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in file.items():
        at = tree
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = value
    return tree


def joined(files: Sequence[Mapping[Path_, Any]]) -> dict[Path_, Any]:
    """What docs/configuration.md says of joining, key by key."""
    known: dict[Path_, Any] = {}
    for file in files:
        for block in REPLACED:
            labels = {path[: len(block) + 1] for path in file if path[: len(block)] == block}
            gone = [path for path in known if path[: len(block) + 1] in labels]
            for path in gone:
                del known[path]
        for path, value in file.items():
            kind = KINDS[path]
            if path not in known or kind in LAST_WINS:
                known[path] = value
            elif kind is Kind.TEXTS:
                known[path] = known[path] + value
            elif kind is Kind.MAP:
                known[path] = {**known[path], **value}
            elif value:
                known[path] = value
    return known


def flat(values: BlockValues, path: Path_ = ()) -> dict[Path_, Any]:
    found: dict[Path_, Any] = {(*path, name): value for name, value in values.values.items()}
    for name, inner in values.blocks.items():
        found |= flat(inner, (*path, name))
    for name, named in values.labelled.items():
        for label, inner in named.items():
            found |= flat(inner, (*path, name, label))
    return found


@settings(max_examples=150, deadline=None)
@given(FILES)
def test_files_are_joined_as_the_model_says(files: list[dict[Path_, Any]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for number, file in enumerate(files):
            Path(directory, f"{number}.json").write_text(json.dumps(tree_of(file)))
        loaded = load([directory])
    assert not loaded.failed
    assert flat(loaded.values) == joined(files)
