"""What older versions of orchgit wrote to the log reads the same for ever.

`tests/golden/log/version-N.zlib` has one entry of each kind that version N knew, every field set
(`tests.support.filled`), as its bytes: zlib of a msgpack map from the kind's tag.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from orchgit.replication.commands.codec import Command, decode, encode
from orchgit.replication.versions import COMMAND_VERSION
from tests.support.filled import filled

FILES = sorted((Path(__file__).parents[2] / "golden" / "log").glob("version-*.zlib"))
KINDS: dict[str, Any] = {kind.__struct_config__.tag: kind for kind in Command.__args__}


def entries(path: Path) -> dict[str, bytes]:
    return msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=dict[str, bytes])


def lost(wanted: Any, found: Any, where: str = "") -> Iterator[str]:
    """Yields what of `wanted` is missing, or is another value, in `found`."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from lost(value, found.get(key), f"{where}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for one, other in zip(wanted, found, strict=True):
            yield from lost(one, other, where)
    elif wanted != found:
        yield where


def added(info: inspect.Type, raw: Any) -> Iterator[str]:
    """Yields the fields of the entry's own structs, at any depth, that `raw` does not have."""
    match info:
        case inspect.UnionType():
            arms = [one for one in info.types if not isinstance(one, inspect.NoneType)]
            yield from added(arms[0], raw)
        case inspect.CollectionType():
            yield from added(info.item_type, raw[0])
        case inspect.StructType() if info.cls.__module__.startswith("orchgit.replication."):
            for field in info.fields:
                if field.encode_name not in raw:
                    yield f"{info.cls.__name__}.{field.name}"
                else:
                    yield from added(field.type, raw[field.encode_name])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_entries_of_earlier_versions_decode_to_the_same(path: Path) -> None:
    for tag, data in entries(path).items():
        again = msgspec.msgpack.decode(encode(decode(data)))
        assert not list(lost(msgspec.msgpack.decode(data), again)), tag


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_kinds_of_earlier_versions_have_no_new_fields(path: Path) -> None:
    """Servers of that version would pass over the field, and their tables would differ from ours:
    a field with an effect is a new kind."""
    for tag, data in entries(path).items():
        assert not list(added(inspect.type_info(KINDS[tag]), msgspec.msgpack.decode(data))), tag


def test_newest_version_is_recorded() -> None:
    """With `python -m tests.unit.replication.test_log_format`, once for each new version."""
    assert {kind.since for tag, kind in KINDS.items() if tag not in entries(FILES[-1])} <= {
        COMMAND_VERSION
    }
    assert FILES[-1].stem == f"version-{COMMAND_VERSION}"


if __name__ == "__main__":
    written = {tag: encode(filled(kind)) for tag, kind in KINDS.items()}
    newest = FILES[-1].with_stem(f"version-{COMMAND_VERSION}")
    newest.write_bytes(zlib.compress(msgspec.msgpack.encode(written), 9))
