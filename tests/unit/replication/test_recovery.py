"""What a crash may leave of a server's store, snapshot and marker, and what the next start makes of
it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchgit.errors import InvariantError
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.recovery import StateFiles
from orchgit.replication.snapshots import snapshot_index, write_snapshot
from orchgit.state.store import Store
from tests.support.factories import make_job
from tests.support.state import apply, open_store


def fill(store: Store, count: int) -> None:
    apply(store, *(RegisterJob(upsert=JobUpsert(job=make_job(id=f"j{n}"))) for n in range(count)))


@pytest.fixture
def files(tmp_path: Path) -> StateFiles:
    """A store that was closed cleanly at index 31, and its snapshot at index 11; beside them, as
    `kept-wal`, the write-ahead log that the store had at the end."""
    files = StateFiles(tmp_path / "state")
    store = open_store(tmp_path)
    fill(store, 10)
    write_snapshot(store, files.snapshot)
    fill(store, 20)
    shutil.copyfile(f"{files.store}-wal", tmp_path / "kept-wal")
    store.close()
    files.mark_clean()
    return files


@pytest.mark.parametrize("is_gone", [True, False], ids=["store-removed", "store-not-trusted"])
def test_write_ahead_log_of_an_earlier_store_is_not_replayed(
    tmp_path: Path, files: StateFiles, is_gone: bool
) -> None:
    """The process died while it removed the store: SQLite would take the rest for its own."""
    if is_gone:
        files.store.unlink()
    else:
        (files.directory / "opened").write_text("another boot")
    shutil.copyfile(tmp_path / "kept-wal", f"{files.store}-wal")
    index = snapshot_index(files.snapshot)
    files.prepare(1)
    store = Store.open(files.store)
    try:
        assert store.position() == (index, index)
        with store.snapshot() as snapshot:
            assert len(snapshot.jobs.all()) == 10
    finally:
        store.close()


def test_store_that_is_being_rebuilt_is_not_marked_clean(files: StateFiles) -> None:
    """Else one that was half copied when the power failed would be trusted."""
    files.store.unlink()
    files.snapshot.write_bytes(files.snapshot.read_bytes() + b"damage")
    with pytest.raises(InvariantError, match="its checksum is wrong"):
        files.prepare(1)
    assert "clean" not in (files.directory / "opened").read_text()


def test_store_that_is_not_trusted_is_gone_before_this_boot_is_marked(files: StateFiles) -> None:
    """Else the next start in this boot would trust it."""
    (files.directory / "opened").write_text("another boot")
    files.snapshot.write_bytes(files.snapshot.read_bytes() + b"damage")
    with pytest.raises(InvariantError, match="its checksum is wrong"):
        files.prepare(1)
    assert not files.store.exists()
