"""Writes evaluation outcomes without a plan to the log; outcomes of one event-loop turn share an
entry."""

from __future__ import annotations

import asyncio

from orchgit.clock import Clock
from orchgit.model.evaluation import Evaluation
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.replicated import ReplicatedState

MAX_TOGETHER = 128


class OutcomeWriter:
    """Stores outcomes; each caller receives the result of the entry that holds its evaluations."""

    def __init__(self, state: ReplicatedState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._gathered: list[Evaluation] = []
        self._entry: asyncio.Task[int] | None = None
        """The entry that `_gathered` will be."""
        self._entries: set[asyncio.Task[int]] = set()

    async def store(self, evaluations: list[Evaluation]) -> int:
        """Stores the evaluations and returns the index of their entry. Canceling the caller does
        not withdraw them."""
        if self._entry is None or len(self._gathered) >= MAX_TOGETHER:
            self._begin_entry()
        self._gathered.extend(evaluations)
        assert self._entry is not None
        return await asyncio.shield(self._entry)

    def _begin_entry(self) -> None:
        """Starts an entry that is proposed in the next event-loop turn; outcomes may join until
        then."""
        gathered: list[Evaluation] = []
        task = asyncio.create_task(self._write(gathered))
        self._entries.add(task)
        task.add_done_callback(self._entries.discard)
        self._gathered, self._entry = gathered, task

    async def _write(self, gathered: list[Evaluation]) -> int:
        if self._gathered is gathered:
            self._entry = None
        command = UpsertEvaluations(now_ns=self._clock.now_ns(), evaluations=gathered)
        return (await self._state.propose(command)).index
