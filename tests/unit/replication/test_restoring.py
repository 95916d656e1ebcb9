"""A snapshot that comes in through the log: whole or not at all, and the same on every server."""

from __future__ import annotations

import hashlib
import io
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import ConflictError, InvalidInputError
from orchgit.model.node import Namespace
from orchgit.replication.archive import ArchiveMeta, Origin, write_archive
from orchgit.replication.commands.codec import Command, encode
from orchgit.replication.commands.jobs import JobUpsert as Upsert
from orchgit.replication.commands.jobs import RegisterJob
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.restoring import (
    AbortRestore,
    AddRestoreChunk,
    BeginRestore,
    CommitRestore,
)
from orchgit.replication.commands.settings import SetClusterId, UpsertNamespaces
from orchgit.replication.events import Effects
from orchgit.replication.machine import apply_entry
from orchgit.state import schema
from orchgit.state.columns import ClusterColumns
from orchgit.state.store import Store
from tests.support.factories import NOW_NS, make_job, make_node
from tests.support.state import apply, check_invariants, open_store
from tests.unit.replication.test_determinism import dump


def archive_of(store: Store, directory: Path) -> bytes:
    copy = sqlite3.connect(directory / "copy.db")
    with store.snapshot() as snapshot:
        snapshot.connection.backup(copy)
        index = snapshot.index
    copy.execute("PRAGMA journal_mode = DELETE")
    copy.close()
    out = io.BytesIO()
    origin = Origin(schema_version=len(schema.MIGRATIONS))
    write_archive(out, ArchiveMeta(index=index, orchgit=origin), directory / "copy.db")
    return out.getvalue()


def sent(archive: bytes, size: int = 3000, restore_id: str = "r") -> list[Command]:
    pieces = [archive[at : at + size] for at in range(0, len(archive), size)]
    return [
        BeginRestore(restore_id=restore_id),
        *(AddRestoreChunk(restore_id=restore_id, seq=n, data=p) for n, p in enumerate(pieces)),
        CommitRestore(restore_id=restore_id, sha256=hashlib.sha256(archive).hexdigest()),
    ]


@pytest.fixture
def old(tmp_path: Path) -> bytes:
    """An archive of a cluster that has seen some hundred entries."""
    (tmp_path / "old").mkdir()
    store = open_store(tmp_path / "old")
    apply(
        store, SetClusterId(cluster_id="old"), RegisterNode(node=make_node(id="n", secret_id="s"))
    )
    apply(store, *(UpsertNamespaces(namespaces=[Namespace(f"ns-{n}")]) for n in range(200)))
    apply(store, RegisterJob(upsert=Upsert(job=make_job(id="web"))))
    data = archive_of(store, tmp_path / "old")
    store.close()
    return data


@pytest.fixture
def fresh(tmp_path: Path) -> Store:
    store = open_store(tmp_path / "fresh")
    apply(store, SetClusterId(cluster_id="new"), RegisterJob(upsert=Upsert(job=make_job(id="x"))))
    return store


def test_state_is_the_restored_one_and_its_index_is_later_than_all_in_it(
    old: bytes, fresh: Store
) -> None:
    apply(fresh, *sent(old))
    with fresh.snapshot() as snapshot:
        assert [job.id for job in snapshot.jobs.all()] == ["web"]
        assert snapshot.meta.cluster_id() == "old"
        newest = max(job.modify_index for job in snapshot.jobs.all())
        assert snapshot.index == snapshot.meta.restored_index() == newest + 1 == 204
        assert snapshot.meta.log_index() < 20
        assert snapshot.table_indexes.newest("nodes") == snapshot.index
        check_invariants(snapshot)
    assert not list(fresh.path.parent.glob("restoring*"))


def test_next_entry_has_the_next_index(old: bytes, fresh: Store) -> None:
    apply(fresh, *sent(old))
    apply(fresh, RegisterJob(upsert=Upsert(job=make_job(id="later"))))
    with fresh.snapshot() as snapshot:
        later = snapshot.jobs.get("default", "later")
        assert later is not None
        assert later.modify_index == snapshot.index == snapshot.meta.restored_index() + 1


def test_older_state_never_takes_the_index_back(tmp_path: Path, old: bytes) -> None:
    store = open_store(tmp_path / "ahead")
    apply(store, *(UpsertNamespaces(namespaces=[Namespace("a")]) for _ in range(500)))
    apply(store, *sent(old))
    with store.snapshot() as snapshot:
        assert snapshot.index > 500
        assert snapshot.meta.index_offset() == 0
    store.close()


def test_restored_once_more(old: bytes, fresh: Store) -> None:
    """Both in one transaction too: the second offset counts from the first."""
    apply(fresh, *sent(old), *sent(old, restore_id="again"))
    with fresh.snapshot() as snapshot:
        assert [job.id for job in snapshot.jobs.all()] == ["web"]
        assert snapshot.index == 204 + len(sent(old))


@settings(max_examples=15)
@given(size=st.integers(500, 9000), cuts=st.lists(st.integers(1, 12), max_size=8))
def test_servers_that_apply_it_in_other_batches_become_equal(
    tmp_path_factory: pytest.TempPathFactory, size: int, cuts: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("equal")
    source = open_store(directory / "source")
    apply(source, *(UpsertNamespaces(namespaces=[Namespace(f"n{n}")]) for n in range(30)))
    (directory / "source").mkdir(exist_ok=True)
    entries = [*sent(archive_of(source, directory / "source"), size)]
    entries += [UpsertNamespaces(namespaces=[Namespace("after")])]
    one, two = open_store(directory / "one"), open_store(directory / "two")
    log = [(n, encode(_stamped(entry))) for n, entry in enumerate(entries, start=1)]
    _apply_log(one, log)
    rest = log
    for count in cuts:
        _apply_log(two, rest[:count])
        rest = rest[count:]
    _apply_log(two, rest)
    assert dump(one) == dump(two)
    for store in (source, one, two):
        store.close()


def _stamped(entry: Command) -> Command:
    entry.now_ns = NOW_NS
    return entry


def _apply_log(store: Store, entries: list[tuple[int, bytes]]) -> None:
    """As the applier does."""
    if not entries:
        return
    txn = store.begin()
    for log_index, payload in entries:
        assert apply_entry(txn, log_index + txn.offset, payload, Effects()) is None
    txn.commit(entries[-1][0] + txn.offset)


def test_damaged_snapshot_changes_nothing(old: bytes, fresh: Store) -> None:
    before = dump(fresh)
    *pieces, commit = sent(old[:-200])
    apply(fresh, *pieces)
    with pytest.raises(InvalidInputError, match="damaged"):
        apply(fresh, commit)
    wrong = CommitRestore(restore_id="r", sha256="0" * 64)
    with pytest.raises(InvalidInputError, match="not those of the snapshot"):
        apply(fresh, wrong)
    apply(fresh, AbortRestore(restore_id="r"))
    after = dump(fresh)
    after["meta"] = before["meta"]  # the applied index
    assert after == before


def test_pieces_of_another_restore_or_out_of_order_are_refused(old: bytes, fresh: Store) -> None:
    begin, first, second, *_ = sent(old)
    apply(fresh, begin, first)
    with pytest.raises(ConflictError, match="piece 1 was"):
        apply(fresh, first)
    apply(fresh, BeginRestore(restore_id="other"))
    for late in (second, CommitRestore(restore_id="r", sha256="")):
        with pytest.raises(ConflictError, match="another restore has begun"):
            apply(fresh, late)
    apply(fresh, AbortRestore(restore_id="r"))
    with fresh.snapshot() as snapshot:
        assert snapshot.meta.restore_in_progress() == "other", "it was ended by a late abort"
    apply(fresh, *sent(old, restore_id="third"))


def test_node_columns_start_anew(old: bytes, fresh: Store) -> None:
    """They follow changes by index, and what was restored has older ones."""
    apply(fresh, RegisterNode(node=make_node(id="gone", secret_id="s")))
    columns = ClusterColumns()
    with fresh.snapshot() as snapshot:
        columns.refresh(snapshot)
    assert set(columns.rows) == {"gone"}
    apply(fresh, *sent(old))
    with fresh.snapshot() as snapshot:
        columns.refresh(snapshot)
    assert set(columns.rows) == {"n"}
