"""One entry: refused whole, or the end of applying; never passed over by mistake."""

from __future__ import annotations

import msgspec
import pytest

from orchgit.errors import InvariantError
from orchgit.raft_node.committed import Committed
from orchgit.raft_node.proposal import Proposal
from orchgit.replication.applier import apply_batch
from orchgit.replication.apply.handlers import HANDLERS
from orchgit.replication.commands.codec import Command, encode
from orchgit.replication.commands.entry import AuthoredEntry, Noop
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.events import Effects
from orchgit.replication.machine import apply_entry
from orchgit.state.transaction import MustStartOver
from tests.support.factories import make_evaluation, make_job
from tests.unit.replication.conftest import Cluster


def one_entry(cluster: Cluster, payload: bytes) -> object:
    txn = cluster.store.begin()
    try:
        return apply_entry(txn, 1, payload, Effects())
    finally:
        txn.commit(1)


def test_every_command_has_a_handler() -> None:
    assert {*HANDLERS, AuthoredEntry} == set(Command.__args__)


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
        assert snapshot.jobs.all() == []


def test_unknown_kind_ends_applying(cluster: Cluster) -> None:
    newer = msgspec.msgpack.encode({"Kind": "from-the-future", "NowNs": 1})
    with pytest.raises(InvariantError, match="does not know 'from-the-future'; upgrade"):
        one_entry(cluster, newer)


def test_noop_changes_nothing_but_the_index(cluster: Cluster) -> None:
    assert one_entry(cluster, encode(Noop())) is None
    with cluster.see() as snapshot:
        assert snapshot.index == 1


def refused_late() -> RegisterJob:
    """Its job is written before its evaluation turns out to be impossible."""
    job = make_job(id="refused")
    evaluation = make_evaluation(job, queued_allocations={job.task_groups[0].name: 2**63})
    return RegisterJob(upsert=JobUpsert(job=job), evaluation=evaluation)


def test_entry_refused_after_a_write_leaves_nothing_and_the_other_entries_stay(
    cluster: Cluster,
) -> None:
    before, after = (RegisterJob(upsert=JobUpsert(job=make_job(id=one))) for one in "ac")
    payloads = [encode(one) for one in (before, refused_late(), after)]
    answered = [Proposal.__new__(Proposal) for _ in payloads]
    entries = [
        Committed(index, payload, [proposal])
        for index, (payload, proposal) in enumerate(zip(payloads, answered, strict=True), start=1)
    ]
    outcome = apply_batch(cluster.store, entries)
    cluster.store.publish(outcome.changes, outcome.index)
    with cluster.see() as snapshot:
        assert [job.id for job in snapshot.jobs.all()] == ["a", "c"]
        assert snapshot.evaluations.all() == []
        assert snapshot.index == 3
    assert [proposal for proposal, _, _ in outcome.answers] == answered, "each once"
    first, refused, last = (result for _, _, result in outcome.answers)
    assert isinstance(refused, InvariantError)
    assert not isinstance(first, Exception)
    assert not isinstance(last, Exception)
    assert outcome.changes.keys["jobs"] == {"default/a", "default/c"}


def test_without_savepoints_nothing_half_written_is_passed_over(cluster: Cluster) -> None:
    txn = cluster.store.begin(savepoints=False)
    with pytest.raises(MustStartOver):
        apply_entry(txn, 1, encode(refused_late()), Effects())
    txn.rollback()
    with cluster.see() as snapshot:
        assert snapshot.jobs.all() == []
