"""The queue as a state machine: workers near and far take batches, finish some, and die."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from orchgit.clock import FakeClock
from orchgit.control.evaluations.broker import FAILED, Delivery, EvalBroker, WorkerSession
from orchgit.control.evaluations.queue import BEHIND_S, STUCK_S, EvalQueue
from orchgit.ids import SequentialIds
from orchgit.model.evaluation import Evaluation
from tests.support.factories import make_id

T = TypeVar("T")
TYPES = ("service", "batch")
WORKERS = ("near-1", "near-2", "far")


class QueueMachine(RuleBasedStateMachine):
    """Whatever workers do with their batches: each evaluation has one holder, none is lost, and
    what one worker's end costs is never more than what that worker held."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.queue = EvalQueue(EvalBroker(), self.clock, SequentialIds())
        self.running = self.loop.create_task(self.queue.run())
        self.sessions = itertools.count(1)
        self.holders = {name: self.new_life(name) for name in WORKERS}
        self.held: dict[str, list[Delivery]] = {name: [] for name in WORKERS}
        self.alive: dict[str, str] = {}
        self.failures: dict[str, int] = {}
        self.index = 0

    def new_life(self, name: str) -> WorkerSession:
        return WorkerSession(name, str(next(self.sessions)), local=name != "far")

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(step)

    def tell(self, what: Callable[[], None]) -> None:
        """And let the queue see to it."""

        async def step() -> None:
            what()
            await asyncio.sleep(0)

        self.do(step())

    # -- what happens --------------------------------------------------------------------------

    @rule(jobs=st.lists(st.integers(0, 11), min_size=1, max_size=8), kind=st.sampled_from(TYPES))
    def enqueue(self, jobs: list[int], kind: str) -> None:
        made = []
        for job in jobs:
            self.index += 1
            fields = {"create_index": self.index, "modify_index": self.index, "type": kind}
            made.append(Evaluation(id=make_id("000000e1"), job_id=f"{kind}-{job}", **fields))
        self.alive |= {each.id: each.job_id for each in made}
        self.tell(lambda: self.queue.enqueue(made))

    @rule(name=st.sampled_from(WORKERS), limit=st.integers(1, 8))
    def take(self, name: str, limit: int) -> None:
        behind = self.queue.is_behind()
        batch = self.do(self.queue.dequeue(TYPES, 0, limit, self.holders[name]))
        assert len(batch) <= limit
        if any(each.again for each in batch):
            assert len(batch) == 1, "what failed once comes alone"
        if name == "far" and self.queue.local:
            assert behind or not batch, "the leader's own workers come first"
        for each in batch:
            assert each.again == (self.failures.get(each.evaluation.id, 0) > 0)
        self.held[name] += batch

    @rule(name=st.sampled_from(WORKERS), which=st.integers(0, 7), how=st.sampled_from("anu"))
    def finish_one(self, name: str, which: int, how: str) -> None:
        """Any one of those it holds, in any order: acknowledged, failed, or given back."""
        if not self.held[name]:
            return
        delivery = self.held[name].pop(which % len(self.held[name]))
        eval_id = delivery.evaluation.id
        if how == "a":
            self.tell(lambda: self.queue.ack(eval_id, delivery.token))
            del self.alive[eval_id]
            for needless in self.queue.take_cancelable(100):
                del self.alive[needless.id]
        else:
            untouched = how == "u"
            self.tell(lambda: self.queue.nack(eval_id, delivery.token, untouched=untouched))
            self.failures[eval_id] = self.failures.get(eval_id, 0) + (how == "n")

    @rule(name=st.sampled_from(WORKERS), told=st.booleans())
    def die(self, name: str, told: bool) -> None:
        """Its batch is lost with it; the next process of the same worker takes its place. The
        queue hears of it from the link, or from the next process's first question."""
        gone, self.holders[name] = self.holders[name], self.new_life(name)
        lost, self.held[name] = self.held[name], []
        if told:
            self.tell(lambda: self.queue.end_session(gone))
        else:
            self.held[name] += self.do(self.queue.dequeue(TYPES, 0, 1, self.holders[name]))
            self.tell(lambda: self.queue.end_session(gone))
        for each in lost:
            assert not self.queue.holds(each.evaluation.id, each.token)
            self.failures[each.evaluation.id] = self.failures.get(each.evaluation.id, 0) + 1

    @rule(seconds=st.sampled_from((STUCK_S / 2, STUCK_S, BEHIND_S, 2.0, 25.0)))
    def time_passes(self, seconds: float) -> None:
        """Not as long as a hold lasts at once; holds that ran out are counted."""
        self.do(self.clock.advance(seconds))
        for name, batch in self.held.items():
            for each in [one for one in batch if not self._holds(one)]:
                self.held[name].remove(each)
                self.failures[each.evaluation.id] = self.failures.get(each.evaluation.id, 0) + 1

    def _holds(self, delivery: Delivery) -> bool:
        return self.queue.holds(delivery.evaluation.id, delivery.token)

    # -- what is always so ---------------------------------------------------------------------

    @invariant()
    def each_has_one_holder_and_none_is_lost(self) -> None:
        out = [each for batch in self.held.values() for each in batch]
        assert all(map(self._holds, out))
        jobs = [each.evaluation.job_id for each in out]
        assert len(jobs) == len(set(jobs)), "one at a time for each job"
        stats = self.queue.stats()
        assert stats.unacked == len(out)
        known = stats.ready + stats.unacked + stats.pending + stats.waiting + stats.failed
        assert known == len(self.alive)

    def teardown(self) -> None:
        """Whoever is left gets everything, in time."""
        for name in WORKERS:
            while self.held[name]:
                self.finish_one(name, 0, "u")
        for name in WORKERS[:2]:
            holder = self.holders[name]
            self.tell(lambda holder=holder: self.queue.end_session(holder))
        last = WorkerSession("far", "last")
        for _ in range(10 * len(self.alive) + 10):
            self.do(self.clock.advance(25))
            for each in self.do(self.queue.dequeue((*TYPES, FAILED), 0, 8, last)):
                self.held["far"].append(each)
                self.finish_one("far", 0, "a")
        assert not self.alive
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self.do(asyncio.wait_for(self.running, 60))
        self.loop.close()


QueueMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestQueueMachine = QueueMachine.TestCase
