"""When the raft thread takes what was submitted, and whether it has to be woken for it."""

from __future__ import annotations

import asyncio

from orchgit.raft_node.proposal import Proposal
from orchgit.raft_node.proposal_batching import ProposalQueue, QueuedProposal

UNDER_WAY, OVER = True, False


async def made(number: int) -> QueuedProposal:
    return QueuedProposal(b"%d" % number, Proposal(), forward=False)


def commands(taken: list[QueuedProposal]) -> list[bytes]:
    return [one.command for one in taken]


def test_single_proposal_is_taken_at_once() -> None:
    async def scenario() -> None:
        queue = ProposalQueue()
        for number in range(3):
            assert queue.put(await made(number)), "the raft thread sleeps"
            assert commands(queue.take(OVER, number)) == [b"%d" % number]
            assert not queue.has_work(UNDER_WAY, number)
            assert not queue.has_work(OVER, number + 0.001), "its round has ended"
            assert queue.limited(30.0, number + 0.001) == 30.0

    asyncio.run(scenario())


def test_proposals_during_a_round_are_batched() -> None:
    async def scenario() -> None:
        queue = ProposalQueue()
        queue.put(await made(0))
        assert len(queue.take(OVER, 5.0)) == 1
        assert not queue.has_work(UNDER_WAY, 5.0)
        for number in (1, 2, 3):
            assert not queue.put(await made(number)), "nobody is woken"
        assert queue.take(UNDER_WAY, 5.001) == []
        assert not queue.has_work(UNDER_WAY, 5.002)
        assert 0.0 < queue.limited(30.0, 5.002) <= 0.01, "it looks again by itself"
        assert queue.has_work(OVER, 5.003)
        assert commands(queue.take(OVER, 5.003)) == [b"1", b"2", b"3"]

    asyncio.run(scenario())


def test_batch_is_taken_after_the_longest_wait_though_the_round_goes_on() -> None:
    async def scenario() -> None:
        queue = ProposalQueue()
        queue.put(await made(0))
        queue.take(OVER, 5.0)
        queue.has_work(UNDER_WAY, 5.0)
        queue.put(await made(1))
        assert queue.limited(30.0, 5.02) == 0.0
        assert queue.has_work(UNDER_WAY, 5.02)
        assert commands(queue.take(UNDER_WAY, 5.02)) == [b"1"]

    asyncio.run(scenario())


def test_full_batch_is_taken_during_a_round() -> None:
    async def scenario() -> None:
        queue = ProposalQueue()
        queue.put(await made(0))
        queue.take(OVER, 5.0)
        queue.has_work(UNDER_WAY, 5.0)
        woken = [queue.put(await made(number)) for number in range(256)]
        assert woken == [False] * 255 + [True]
        assert len(queue.take(UNDER_WAY, 5.001)) == 256

    asyncio.run(scenario())
