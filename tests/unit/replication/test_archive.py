"""The snapshot archive: what goes in comes out, and nothing that is not whole is taken."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import InvalidInputError
from orchgit.replication.archive import (
    FORMAT,
    ArchiveMeta,
    Origin,
    read_archive,
    write_archive,
)
from orchgit.state import schema
from orchgit.state.store import Store

VERSION = len(schema.MIGRATIONS)


def make_state(directory: Path) -> Path:
    Store.open(directory / "live.db").close()
    copy, live = sqlite3.connect(directory / "copy.db"), sqlite3.connect(directory / "live.db")
    live.backup(copy)
    copy.execute("PRAGMA journal_mode = DELETE")
    copy.close()
    live.close()
    return directory / "copy.db"


def make_archive(directory: Path, **origin: object) -> bytes:
    out = io.BytesIO()
    fields = {"schema_version": VERSION, "build": "9.9", "cluster_id": "c", **origin}
    meta = ArchiveMeta(id="2-7-1", index=7, term=2, orchgit=Origin(**fields))  # type: ignore[arg-type]
    write_archive(out, meta, make_state(directory))
    return out.getvalue()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def with_packs(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("with-packs")
    packs = {name: directory / name for name in PACKS}
    for name, content in PACKS.items():
        packs[name].write_bytes(content)
    out = io.BytesIO()
    origin = Origin(schema_version=VERSION, build="9.9")
    write_archive(out, ArchiveMeta(orchgit=origin), make_state(directory), packs)
    return out.getvalue()


PACKS = {"demo": b"one pack", "other-1": b"and another " * 100_000}


def refusal(data: bytes) -> str:
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "state.db"
        with pytest.raises(InvalidInputError) as caught:
            read_archive(io.BytesIO(data), state, Path(directory) / "packs")
        assert list(Path(directory).iterdir()) == [], "something was left"
    return str(caught.value)


def members(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]


def packed(parts: dict[str, bytes], sums: bool = True) -> bytes:
    """An archive of these members; with checksums that are right for them."""
    if sums:
        lines = [f"{hashlib.sha256(parts[n]).hexdigest()}  {n}\n" for n in parts if n[0] != "S"]
        parts = {**parts, "SHA256SUMS": "".join(lines).encode()}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def test_archive_returns_what_was_written(tmp_path: Path) -> None:
    data = make_archive(tmp_path)
    state = tmp_path / "out.db"
    meta = read_archive(io.BytesIO(data), state)
    assert (meta.index, meta.term, meta.origin.cluster_id) == (7, 2, "c")
    assert state.read_bytes() == (tmp_path / "copy.db").read_bytes()


def test_its_form_is_that_of_nomad_s_snapshots(archive: bytes) -> None:
    """Go's client checks the sums of a saved archive, and knows exactly these members."""
    parts = members(archive)
    assert list(parts) == ["meta.json", "state.bin", "SHA256SUMS"]
    lines = dict(reversed(line.split("  ")) for line in parts["SHA256SUMS"].decode().splitlines())
    assert lines == {n: hashlib.sha256(parts[n]).hexdigest() for n in ("meta.json", "state.bin")}
    meta = json.loads(parts["meta.json"])
    assert {"Version", "ID", "Index", "Term", "Size"} <= set(meta)


@settings(max_examples=60)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_archive_that_ends_too_early_is_refused(archive: bytes, cut: float) -> None:
    assert "take another one" in refusal(archive[: int(len(archive) * cut)])


@settings(max_examples=100)
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_changed_byte_changes_nothing_or_is_refused(
    archive: bytes, place: float, change: int
) -> None:
    """Some bytes of gzip's and tar's heads (times, the name of the system) say nothing."""
    data = bytearray(archive)
    data[int(len(data) * place)] ^= change
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "state.db"
        try:
            read_archive(io.BytesIO(bytes(data)), state)
        except InvalidInputError:
            assert not state.exists()
        else:
            assert state.read_bytes() == members(archive)["state.bin"]


def with_meta(**changes: object) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    def change(parts: dict[str, bytes]) -> dict[str, bytes]:
        meta = {**json.loads(parts["meta.json"]), **changes}
        return {**parts, "meta.json": json.dumps(meta).encode()}

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda parts: {**parts, "state.bin": b"no state"}, "is no state of"),
        (lambda parts: {**parts, "more": b""}, "'more' does not belong in it"),
        (lambda parts: {n: parts[n] for n in ("meta.json",)}, "it lacks state.bin"),
        (lambda parts: {**parts, "meta.json": b"{"}, "meta.json cannot be read"),
        (lambda parts: {**parts, "meta.json": b"7"}, "meta.json cannot be read"),
        (with_meta(Size=1), "is no state of 1 bytes"),
        (with_meta(Orchgit=None), "another program"),
        (with_meta(Orchgit={"Format": FORMAT + 1, "Build": "9.9"}), "orchgit 9.9 made it"),
        (with_meta(Orchgit={"SchemaVersion": VERSION + 1, "Build": "9.9"}), "upgrade first"),
        (with_meta(Orchgit={"SchemaVersion": VERSION - 1}), "not what its meta.json says"),
    ],
)
def test_archive_of_another_or_newer_program_is_refused_with_the_reason(
    archive: bytes, change: Callable[[dict[str, bytes]], dict[str, bytes]], told: str
) -> None:
    parts = members(archive)
    del parts["SHA256SUMS"]
    assert told in refusal(packed(change(parts)))


def test_checksums_are_compared(archive: bytes) -> None:
    parts = members(archive)
    state = bytearray(parts["state.bin"])
    state[5000] ^= 1
    assert "checksum of state.bin" in refusal(packed({**parts, "state.bin": bytes(state)}, False))


def test_damage_under_right_checksums_is_found(archive: bytes) -> None:
    parts = members(archive)
    state = bytearray(parts["state.bin"])
    state[4096:8192] = bytes(4096)
    assert "state.bin" in refusal(packed({**parts, "state.bin": bytes(state)}))


def test_links_and_paths_have_no_place_in_it(archive: bytes) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        member = tarfile.TarInfo("state.bin")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    assert "does not belong" in refusal(out.getvalue())
    assert "does not belong" in refusal(packed({"../state.bin": b""}))


@pytest.mark.parametrize("data", [b"", b"hello", gzip.compress(b"hello", mtime=0), bytes(4096)])
def test_other_files_are_refused(data: bytes) -> None:
    assert "damaged or no snapshot at all" in refusal(data)


# -- with git repositories -----------------------------------------------------------------------


def test_packs_come_out_as_they_went_in(with_packs: bytes, tmp_path: Path) -> None:
    meta = read_archive(io.BytesIO(with_packs), tmp_path / "state.db", tmp_path / "packs")
    sizes = {name: len(content) for name, content in PACKS.items()}
    assert {one.name: one.size for one in meta.origin.repositories} == sizes
    assert meta.origin.format == FORMAT
    found = {path.stem: path.read_bytes() for path in (tmp_path / "packs").iterdir()}
    assert found == PACKS


def test_packs_need_not_be_unpacked_to_be_checked(with_packs: bytes, tmp_path: Path) -> None:
    read_archive(io.BytesIO(with_packs), tmp_path / "state.db")
    assert [path.name for path in tmp_path.iterdir()] == ["state.db"]
    parts = members(with_packs)
    changed = packed({**parts, "git/demo.pack": b"no pack"}, sums=False)
    with pytest.raises(InvalidInputError, match=r"the checksum of git/demo.pack does not match"):
        read_archive(io.BytesIO(changed), tmp_path / "state.db")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"git/demo.pack": None}, "not those that it names"),
        ({"git/demo.pack": b"another size"}, "not those that it names"),
        ({"git/more.pack": b""}, "not those that it names"),
        ({"git/../demo.pack": b""}, "'git/../demo.pack' does not belong in it"),
        ({"/git/demo.pack": b""}, "does not belong in it"),
        ({"git/a/b.pack": b""}, "does not belong in it"),
    ],
)
def test_only_the_packs_that_are_named_are_taken(
    with_packs: bytes, changes: dict[str, bytes | None], told: str
) -> None:
    parts = {**members(with_packs), **changes}
    del parts["SHA256SUMS"]
    assert told in refusal(packed({n: data for n, data in parts.items() if data is not None}))


def test_archive_with_a_header_of_gigabytes_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 8 << 30
    data = gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(64 << 20), 1)
    with pytest.raises(InvalidInputError, match="headers are too large"):
        read_archive(io.BytesIO(data), tmp_path / "out.db")
