"""Which node an allocation's data comes from, and who may ask for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from orchgit.errors import NotAllowedError, NotFoundError
from orchgit.model.node import Node
from orchgit.model.plan import PlanResult
from orchgit.replication.commands.allocations import AllocClientUpdate
from orchgit.replication.commands.nodes import UpdateNodeStatus
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.services.allocations.migration import (
    MigrationSource,
    find_migration_source,
    is_proven_taker,
)
from orchgit.services.allocations.reports import NodeReports
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.register import register_job
from orchgit.wire.relay_proof import HEADER, MAX_AGE_S, is_proven, proof
from tests.support.factories import make_job, make_placements
from tests.support.use_cases import ready_node, with_context

PATH = "/v1/client/allocation/{}/snapshot"


class Moved:
    """An allocation that replaces another one, on another node."""

    def __init__(self, context: UseCaseContext, old: Node, new: Node, ids: list[str]) -> None:
        self.context, self.old, self.new = context, old, new
        self.old_alloc, self.new_alloc = ids

    async def source(self, alloc_id: str = "", **asked: str) -> MigrationSource:
        node_id = asked.get("node_id", self.new.id)
        secret = asked.get("secret", self.new.secret_id)
        wanted = alloc_id or self.new_alloc
        return await find_migration_source(self.context, node_id, secret, wanted, 0.0)

    async def old_becomes(self, status: str) -> None:
        update = AllocClientUpdate(self.old_alloc, status)
        await NodeReports(self.context, self.old.id).take([update])


async def moved(context: UseCaseContext) -> Moved:
    old, new = await ready_node(context, name="old"), await ready_node(context, name="new")
    job = make_job()
    await register_job(context, job)
    first = make_placements(job, [old])
    second = make_placements(job, [new], previous_of={0: first.alloc_ids[0]})
    plan = PlanResult(placements=[first, second])
    await context.propose(
        ApplyPlan(
            namespace=job.namespace,
            job_id=job.id,
            job_version=0,
            eval_id=first.eval_id,
            result=plan,
        )
    )
    found = Moved(context, old, new, [first.alloc_ids[0], second.alloc_ids[0]])
    await found.old_becomes("running")
    return found


def run(work: Callable[[Moved], Awaitable[None]]) -> None:
    async def inside(context: UseCaseContext) -> None:
        await work(await moved(context))

    with_context(inside)


def test_data_of_an_allocation_that_runs_is_waited_for() -> None:
    async def work(found: Moved) -> None:
        assert (await found.source()).runs
        await found.old_becomes("complete")
        source = await found.source()
        path = PATH.format(found.old_alloc)
        assert (source.runs, source.gone, source.node_id) == (False, "", found.old.id)
        assert source.url == f"http://{found.old.http_addr}{path}"
        now_ns = found.context.now_ns()
        assert is_proven(found.old.secret_id, "GET", path, b"", now_ns, source.proof.encode())

    run(work)


@pytest.mark.parametrize("how", ["down", "lost"])
def test_data_of_a_node_that_is_down_is_gone(how: str) -> None:
    async def work(found: Moved) -> None:
        if how == "down":
            await found.context.propose(UpdateNodeStatus(node_id=found.old.id, status="down"))
        else:
            await found.old_becomes("lost")
        assert (await found.source()).gone == f"its node {found.old.id} is down or gone"

    run(work)


def test_only_the_node_of_the_allocation_is_told() -> None:
    async def work(found: Moved) -> None:
        with pytest.raises(NotAllowedError, match="the secret is not the one"):
            await found.source(secret="guessed")
        with pytest.raises(NotAllowedError, match="it is unknown"):
            await found.source(node_id="nowhere")
        with pytest.raises(NotFoundError, match="cannot find allocation"):
            await found.source(node_id=found.old.id, secret=found.old.secret_id)
        with pytest.raises(NotFoundError, match="cannot find allocation"):
            await found.source("no-such")

    run(work)


def test_data_is_given_to_a_fresh_proof_for_this_allocation_only() -> None:
    async def work(found: Moved) -> None:
        now_ns = found.context.now_ns()
        path = PATH.format(found.old_alloc)
        value = proof(found.old.secret_id, "GET", path, b"", now_ns)
        good = {"method": "GET", "path": path, "query_string": b"", "headers": [(HEADER, value)]}

        def taken(alloc_id: str = found.old_alloc, **changes: object) -> bool:
            return is_proven_taker(found.context, alloc_id, {**good, **changes})

        assert taken()
        assert not taken("no-such")
        assert not taken(found.new_alloc)
        assert not taken(headers=[])
        assert not taken(headers=[(HEADER, value), (HEADER, value)])
        assert not taken(path=PATH.format(found.new_alloc))
        assert not taken(query_string=b"a=b")
        assert not taken(headers=[(HEADER, proof("other", "GET", path, b"", now_ns))])
        old_ns = now_ns - (MAX_AGE_S + 2) * 10**9
        old = proof(found.old.secret_id, "GET", path, b"", old_ns)
        assert not taken(headers=[(HEADER, old)])

    run(work)
