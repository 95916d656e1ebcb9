"""Who did it: the author of a write is recorded with each object that the write changes."""

from __future__ import annotations

import pytest

from orchgit.errors import ConflictError, NotFoundError
from orchgit.model.author import Author, AuthoredChange
from orchgit.model.evaluation import Evaluation
from orchgit.model.node import DrainStrategy, Namespace
from orchgit.model.server import ServerRecord
from orchgit.replication.commands.codec import Command, encode
from orchgit.replication.commands.entry import AuthoredEntry, Noop
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.jobs import RegisterJob
from orchgit.replication.commands.nodes import SetNodeDrain
from orchgit.replication.commands.settings import DeleteNamespaces, UpsertNamespaces
from orchgit.replication.commands.variables import RenewVariableLock
from orchgit.replication.proposal import RequestWrites
from orchgit.replication.versions import understands
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.register import register_job
from tests.support.factories import make_job
from tests.support.use_cases import ready_node, with_context

ADA = Author("0a0a0a0a-1111-4222-8333-444444444444", "ada")
BOB = Author("0b0b0b0b-1111-4222-8333-444444444444", "bob")


def of(context: UseCaseContext, author: Author) -> UseCaseContext:
    """The context of a request with the author's token."""
    return context.noting(RequestWrites(author=author))


def changes(context: UseCaseContext) -> dict[str, AuthoredChange]:
    with context.snapshot() as snapshot:
        return {each.id: each for each in snapshot.authored_changes.all()}


def who(context: UseCaseContext) -> dict[str, str]:
    return {id_: each.author.name for id_, each in changes(context).items()}


def test_each_version_of_a_job_has_its_author() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(of(context, ADA), make_job(id="web"))
        await register_job(of(context, BOB), make_job(id="web", priority=70))
        await register_job(context, make_job(id="web", priority=80))
        with context.snapshot() as snapshot:
            found = snapshot.authored_changes.of_job("default", "web", [0, 1, 2])
        assert [each.author for each in found] == [ADA, BOB]
        assert found[0].action == "RegisterJob"
        assert found[0].time_ns == context.now_ns()
        assert "evaluations" not in {each.kind for each in changes(context).values()}

    with_context(work)


def test_purge_and_evaluation_by_hand_have_authors() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        evaluation = Evaluation(id="e1", namespace="default", job_id="web")
        await of(context, ADA).propose(UpsertEvaluations(evaluations=[evaluation]))
        assert who(context) == {"evaluations:e1": "ada"}
        await deregister_job(
            of(context, BOB),
            "default",
            "web",
            DeregisterOptions(purge=True),
        )
        assert who(context)["jobs:default/web"] == "bob"

    with_context(work)


def test_last_author_of_an_object_wins() -> None:
    async def work(context: UseCaseContext) -> None:
        for author in (ADA, BOB):
            command = UpsertNamespaces(namespaces=[Namespace(name="team")])
            await of(context, author).propose(command)
        assert who(context) == {"namespaces:team": "bob"}
        await of(context, ADA).propose(DeleteNamespaces(names=["team"]))
        assert changes(context)["namespaces:team"].action == "DeleteNamespaces"

    with_context(work)


def test_refused_write_records_nobody() -> None:
    async def work(context: UseCaseContext) -> None:
        command = RenewVariableLock(namespace="default", path="nowhere", lock_id="x")
        with pytest.raises((ConflictError, NotFoundError)):
            await of(context, ADA).propose(command)
        assert who(context) == {}

    with_context(work)


def test_authored_entry_in_an_authored_entry_changes_nothing() -> None:
    async def work(context: UseCaseContext) -> None:
        inner: Command = AuthoredEntry(author=ADA, entry=encode(Noop()))
        with pytest.raises(Exception, match="cannot apply"):
            await context.propose(AuthoredEntry(author=BOB, entry=encode(inner)))
        assert who(context) == {}

    with_context(work)


def test_author_is_recorded_only_when_every_member_understands_it() -> None:
    old, new = ServerRecord(address="a:1", command_version=4), ServerRecord(address="b:1")
    new.command_version = 5
    assert understands(AuthoredEntry, [], [])
    assert understands(AuthoredEntry, ["b:1"], [old, new])
    assert not understands(AuthoredEntry, ["a:1", "b:1"], [old, new])
    assert not understands(AuthoredEntry, ["c:1"], [old, new])
    assert understands(RegisterJob, ["a:1", "c:1"], [old, new])


def test_drain_names_the_accessor_of_its_token() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        drain = SetNodeDrain(node_id=node.id, drain=DrainStrategy())
        await of(context, ADA).propose(drain)
        with context.snapshot() as snapshot:
            stored = snapshot.nodes.get(node.id)
        assert stored is not None
        assert stored.last_drain is not None
        assert stored.last_drain["AccessorID"] == ADA.accessor_id
        assert who(context)[f"nodes:{node.id}"] == "ada"

    with_context(work)
