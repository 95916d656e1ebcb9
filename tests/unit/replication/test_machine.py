"""One entry: refused whole, or the end of applying; never passed over by mistake."""

from __future__ import annotations

import msgspec
import pytest

from orchgit.errors import InvariantError
from orchgit.replication.apply.handlers import HANDLERS
from orchgit.replication.commands import Command, JobUpsert, Noop, RegisterJob, encode
from orchgit.replication.events import Effects
from orchgit.replication.machine import apply_entry
from tests.support.factories import make_job
from tests.unit.replication.conftest import Cluster


def one_entry(cluster: Cluster, payload: bytes) -> object:
    txn = cluster.store.begin()
    try:
        return apply_entry(txn, 1, payload, Effects())
    finally:
        txn.commit(1)


def test_every_command_has_a_handler() -> None:
    assert set(HANDLERS) == set(Command.__args__)


def test_wrong_values_are_refused_and_change_nothing(cluster: Cluster) -> None:
    """A struct made in Python is not validated: the log must survive what a bug proposes."""
    wrong = encode(RegisterJob(upsert=JobUpsert(job=make_job(priority="high"))))
    result = one_entry(cluster, wrong)
    assert isinstance(result, InvariantError)
    assert "register-job at index 1" in str(result)


def test_numbers_that_the_database_cannot_hold_are_refused(cluster: Cluster) -> None:
    huge = encode(RegisterJob(upsert=JobUpsert(job=make_job(priority=2**63))))
    result = one_entry(cluster, huge)
    assert isinstance(result, InvariantError)
    with cluster.see() as snapshot:
        assert snapshot.jobs() == []


def test_an_unknown_kind_ends_applying(cluster: Cluster) -> None:
    newer = msgspec.msgpack.encode({"Kind": "from-the-future", "NowNs": 1})
    with pytest.raises(InvariantError, match="does not know 'from-the-future'; upgrade"):
        one_entry(cluster, newer)


def test_a_noop_changes_nothing_but_the_index(cluster: Cluster) -> None:
    assert one_entry(cluster, encode(Noop())) is None
    with cluster.see() as snapshot:
        assert snapshot.index == 1
