"""Outcomes that come together are one entry, and everybody hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orchgit.clock import FakeClock
from orchgit.control.plans.outcome_writer import MAX_TOGETHER, OutcomeWriter
from orchgit.errors import NotLeaderError
from orchgit.raft_node.proposal import Applied
from orchgit.replication.commands.evaluations import UpsertEvaluations
from tests.support.factories import make_evaluation


class Log:
    """Notes how many evaluations each entry has."""

    def __init__(self, error: Exception | None = None) -> None:
        self.entries: list[int] = []
        self.may_apply = asyncio.Event()
        self.may_apply.set()
        self._error = error

    async def propose(self, command: UpsertEvaluations) -> Applied:
        self.entries.append(len(command.evaluations))
        index = len(self.entries)
        await self.may_apply.wait()
        if self._error is not None:
            raise self._error
        return Applied(index, None)


def writer_on(log: Log) -> OutcomeWriter:
    return OutcomeWriter(log, FakeClock())  # type: ignore[arg-type] # what it uses of the state


def outcome() -> list[Any]:
    return [make_evaluation(), make_evaluation()]


def test_outcomes_of_one_event_loop_turn_share_an_entry() -> None:
    async def run() -> None:
        log = Log()
        writer = writer_on(log)
        assert await asyncio.gather(*(writer.store(outcome()) for _ in range(5))) == [1] * 5
        assert await writer.store(outcome()) == 2
        assert log.entries == [10, 2]

    asyncio.run(run())


def test_outcomes_of_one_entry_are_limited() -> None:
    async def run() -> None:
        log = Log()
        writer = writer_on(log)
        await asyncio.gather(*(writer.store(outcome()) for _ in range(MAX_TOGETHER)))
        assert log.entries == [MAX_TOGETHER, MAX_TOGETHER]

    asyncio.run(run())


def test_next_entry_is_proposed_before_the_last_is_applied() -> None:
    async def run() -> None:
        log = Log()
        log.may_apply.clear()
        writer = writer_on(log)
        first = asyncio.create_task(writer.store(outcome()))
        while not log.entries:
            await asyncio.sleep(0)
        second = asyncio.create_task(writer.store(outcome()))
        while len(log.entries) < 2:
            await asyncio.sleep(0)
        log.may_apply.set()
        assert await asyncio.gather(first, second) == [1, 2]

    asyncio.run(run())


def test_failed_entry_raises_for_every_caller_and_a_canceled_one_drops_nothing() -> None:
    async def run() -> None:
        log = Log(NotLeaderError("cannot: lost"))
        log.may_apply.clear()
        writer = writer_on(log)
        callers = [asyncio.create_task(writer.store(outcome())) for _ in range(3)]
        while not log.entries:
            await asyncio.sleep(0)
        callers[0].cancel()
        await asyncio.sleep(0)
        log.may_apply.set()
        for caller in callers[1:]:
            with pytest.raises(NotLeaderError):
                await caller
        assert log.entries == [6]

    asyncio.run(run())
