"""When the raft thread takes what was submitted, and whether it has to be woken for it."""

from __future__ import annotations

import asyncio

from orchgit.raft_node.proposal import Proposal
from orchgit.raft_node.proposal_batching import Submission, Submissions

UNDER_WAY, OVER = True, False


async def made(number: int) -> Submission:
    return Submission(b"%d" % number, Proposal(), forward=False)


def commands(taken: list[Submission]) -> list[bytes]:
    return [one.command for one in taken]


def test_who_writes_alone_waits_for_nobody() -> None:
    async def scenario() -> None:
        submissions = Submissions()
        for number in range(3):
            assert submissions.put(await made(number)), "the raft thread sleeps"
            assert commands(submissions.take(OVER, number)) == [b"%d" % number]
            assert not submissions.ask_for_turn(UNDER_WAY, number)
            assert not submissions.ask_for_turn(OVER, number + 0.001), "its round has ended"
            assert submissions.within(30.0, number + 0.001) == 30.0

    asyncio.run(scenario())


def test_what_comes_during_a_round_makes_up_the_next_one() -> None:
    async def scenario() -> None:
        submissions = Submissions()
        submissions.put(await made(0))
        assert len(submissions.take(OVER, 5.0)) == 1
        assert not submissions.ask_for_turn(UNDER_WAY, 5.0)
        for number in (1, 2, 3):
            assert not submissions.put(await made(number)), "nobody is woken"
        assert submissions.take(UNDER_WAY, 5.001) == []
        assert not submissions.ask_for_turn(UNDER_WAY, 5.002)
        assert 0.0 < submissions.within(30.0, 5.002) <= 0.01, "it looks again by itself"
        assert submissions.ask_for_turn(OVER, 5.003)
        assert commands(submissions.take(OVER, 5.003)) == [b"1", b"2", b"3"]

    asyncio.run(scenario())


def test_a_slow_round_is_not_waited_for_to_its_end() -> None:
    async def scenario() -> None:
        submissions = Submissions()
        submissions.put(await made(0))
        submissions.take(OVER, 5.0)
        submissions.ask_for_turn(UNDER_WAY, 5.0)
        submissions.put(await made(1))
        assert submissions.within(30.0, 5.02) == 0.0
        assert submissions.ask_for_turn(UNDER_WAY, 5.02)
        assert commands(submissions.take(UNDER_WAY, 5.02)) == [b"1"]

    asyncio.run(scenario())


def test_when_there_is_enough_for_a_round_it_begins() -> None:
    async def scenario() -> None:
        submissions = Submissions()
        submissions.put(await made(0))
        submissions.take(OVER, 5.0)
        submissions.ask_for_turn(UNDER_WAY, 5.0)
        woken = [submissions.put(await made(number)) for number in range(256)]
        assert woken == [False] * 255 + [True]
        assert len(submissions.take(UNDER_WAY, 5.001)) == 256

    asyncio.run(scenario())
