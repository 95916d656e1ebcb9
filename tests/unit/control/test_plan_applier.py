"""What the plan applier writes into the log."""

from __future__ import annotations

import asyncio

import pytest

from orchgit.control.plans.applier import PlanApplier
from orchgit.control.plans.queue import PlanQueue
from orchgit.model.plan import AllocUpdate, Plan
from orchgit.services.context import UseCaseContext
from tests.support.earlier_members import with_member_of
from tests.support.factories import make_job
from tests.support.use_cases import placed_job, ready_node, with_context


class _HoldsAll:
    def holds(self, eval_id: str, token: str) -> bool:
        return True

    def note_index(self, key: tuple[str, str], index: int) -> None:
        pass


async def _nothing(node_id: str) -> None:
    pass


async def _submit(context: UseCaseContext, plan: Plan) -> int:
    """Returns the index at which an applier of the state commits the plan."""
    queue = PlanQueue(context.clock.monotonic_s)
    applier = PlanApplier(context.state, queue, _HoldsAll(), context.clock, context.ids, _nothing)
    running = asyncio.create_task(applier.run())
    try:
        return (await queue.submit(plan)).alloc_index
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(("version", "keeps"), [(5, False), (6, True)])
def test_follow_up_leaves_the_evaluation_of_an_allocation_once_all_servers_are_upgraded(
    version: int, keeps: bool
) -> None:
    async def work(context: UseCaseContext) -> None:
        job, node = make_job(), await ready_node(context)
        (alloc_id,) = await placed_job(context, job, [node], "failed")
        with context.snapshot() as snapshot:
            before = snapshot.allocations.get(alloc_id)
        assert before is not None
        update = AllocUpdate(alloc_id, node.id, followup_eval_id="wait")
        key = {"namespace": job.namespace, "job_id": job.id}
        plan = Plan(**key, eval_id="later", updates=[update])
        assert await _submit(with_member_of(version, context), plan)
        with context.snapshot() as snapshot:
            after = snapshot.allocations.get(alloc_id)
        assert after is not None
        assert after.followup_eval_id == "wait"
        assert after.eval_id == (before.eval_id if keeps else "later")

    with_context(work)
