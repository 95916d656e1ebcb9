"""One timer for every proposal that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from orchgit.raft_node.proposal import Applied, Proposal
from orchgit.replication.pending_proposals import PendingProposals
from tests.support.virtual_time import VirtualTimeLoop


def run(scenario: Callable[[PendingProposals], Awaitable[None]]) -> None:
    async def whole() -> None:
        waiting = PendingProposals()
        await scenario(waiting)
        waiting.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(whole())


def test_each_proposal_expires_at_its_own_time() -> None:
    async def scenario(waiting: PendingProposals) -> None:
        time_s = asyncio.get_running_loop().time
        ended: list[tuple[str, float]] = []
        proposals = {name: Proposal() for name in ("long", "late", "early", "at once")}
        for name, proposal in proposals.items():
            proposal.future.add_done_callback(lambda _, name=name: ended.append((name, time_s())))
        for name, timeout_s in (("long", 60), ("late", 20), ("early", 10), ("at once", 0)):
            waiting.add(proposals[name], timeout_s)
        with pytest.raises(TimeoutError):
            await proposals["late"].future
        assert ended == [("at once", 0), ("early", 10), ("late", 20)]
        assert list(waiting) == [proposals["long"]]
        for name, _ in ended:
            assert isinstance(proposals[name].future.exception(), TimeoutError)

    run(scenario)


def test_answered_or_discarded_proposal_does_not_expire() -> None:
    async def scenario(waiting: PendingProposals) -> None:
        answered, discarded, last = Proposal(), Proposal(), Proposal()
        for proposal in (answered, discarded, last):
            waiting.add(proposal, 0)
        answered.answer(7, "done")
        waiting.discard(discarded)
        with pytest.raises(TimeoutError):
            await last.future
        assert answered.future.result() == Applied(7, "done")
        assert not discarded.future.done()
        assert list(waiting) == []

    run(scenario)


def test_timer_is_set_again_after_a_pause() -> None:
    async def scenario(waiting: PendingProposals) -> None:
        for _ in range(2):
            proposal = Proposal()
            waiting.add(proposal, 5)
            with pytest.raises(TimeoutError):
                await proposal.future

    run(scenario)
