"""The queue of evaluations: which one a worker gets next. Pure: time comes in, values come out.

An evaluation moves through these places:

    enqueue -> waiting (wait_until, or the delay after a nack) -> ready -> unacknowledged -> gone
                                 `-> pending: another evaluation of its job is ready or out

Per job at most one evaluation is ready or out (invariant 4); the others are pending. An ack
releases the best pending one (highest priority, then newest) and moves the rest to the cancelable
set: the one kept sees at least what they would have seen. An evaluation nacked or timed out
`delivery_limit` times goes to the FAILED queue, which only the leader reads.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from orchgit.errors import ConflictError
from orchgit.metrics.durations import MeasuredTimes
from orchgit.model.base import NS_PER_S
from orchgit.model.evaluation import Evaluation

FAILED = "_failed"
"""The queue of evaluations that were delivered too often."""

JobKey = tuple[str, str]


@dataclass(frozen=True)
class BrokerLimits:
    """`delivery_limit` nacks fail an evaluation; the first is redelivered sooner than the rest."""

    nack_timeout_ns: int = 60 * NS_PER_S
    first_nack_delay_ns: int = 1 * NS_PER_S
    later_nack_delay_ns: int = 20 * NS_PER_S
    delivery_limit: int = 3


@dataclass(frozen=True)
class WorkerSession:
    """One process of a worker; a worker that is started again has another session. `local`: a
    process of the server that leads, which costs less to serve than another server's."""

    worker_id: str = ""
    session: str = ""
    local: bool = field(default=False, compare=False)

    def new_token(self, number: str) -> str:
        """The token of one delivery; it names the session that holds the evaluation."""
        return f"{self.worker_id}/{self.session}/{number}"

    def holds(self, token: str) -> bool:
        """Whether the delivery under `token` went to this session."""
        worker_id, session, _ = token.split("/", 2)
        return worker_id == self.worker_id and session == self.session

    def supersedes(self, token: str) -> bool:
        """Whether the delivery under `token` went to another session of this worker: a stale one,
        if this is the newest."""
        worker_id, session, _ = token.split("/", 2)
        return worker_id == self.worker_id and session != self.session


@dataclass(frozen=True)
class Delivery:
    """One handing-out of an evaluation; `token` proves who holds it. `again`: an earlier one
    failed. `workers_lost`: as many earlier ones ended with the process of their worker."""

    evaluation: Evaluation
    token: str
    wait_index: int
    again: bool = False
    workers_lost: int = 0


@dataclass
class _Tracked:
    evaluation: Evaluation
    deliveries: int = 0
    workers_lost: int = 0
    token: str = ""
    """Set while a worker holds it."""
    ticket: int = 0
    """Its place in a ready queue; entries with another ticket are stale, 0 is none."""
    alarm_ns: int = 0
    """When the hold or the delay ends; heap entries with another time are stale."""
    again: Evaluation | None = None
    """A newer form that came while a worker held it: enqueued at the ack."""
    came_ns: int = 0
    """Since when a worker could have had it."""
    waits_since_ns: int = 0
    """The same for the next delivery: later than `came_ns` once one has failed."""
    taken_ns: int = 0


@dataclass(slots=True)
class EvalTimes:
    """How long evaluations of one type of job take, as far as the broker sees."""

    wait: MeasuredTimes = field(default_factory=MeasuredTimes)
    """From the queue to a worker, for each delivery; a time to wait for is left out."""
    process: MeasuredTimes = field(default_factory=MeasuredTimes)
    """From the worker to its acknowledgment."""
    response: MeasuredTimes = field(default_factory=MeasuredTimes)
    """From the queue to the acknowledgment."""


@dataclass
class BrokerStats:
    ready: int = 0
    unacked: int = 0
    pending: int = 0
    waiting: int = 0
    cancelable: int = 0
    failed: int = 0


def job_key(evaluation: Evaluation) -> JobKey:
    return (evaluation.namespace, evaluation.job_id)


class EvalBroker:
    """All methods are O(log n) but `stats`. Not thread-safe: the event loop owns it."""

    def __init__(self, limits: BrokerLimits | None = None) -> None:
        self.limits = limits or BrokerLimits()
        self._tracked: dict[str, _Tracked] = {}
        self._active: dict[JobKey, str] = {}
        self._pending: dict[JobKey, dict[str, None]] = {}
        self._ready: dict[str, list[tuple[int, int, int, str]]] = {}
        self._served: dict[str, int] = {}
        self._alarms: list[tuple[int, int, str]] = []
        self._held: set[str] = set()
        self._cancelable: dict[str, Evaluation] = {}
        self._job_indexes: dict[JobKey, int] = {}
        self._order = itertools.count(1)
        self.times: dict[str, EvalTimes] = {}
        """By type of job."""
        self.floor_index = 0
        """No evaluation is scheduled below this index: the state's when leadership began."""

    # -- in ------------------------------------------------------------------------------------

    def enqueue(self, evaluation: Evaluation, now_ns: int) -> None:
        """Take an evaluation in. One that is known already is only brought up to date; while a
        worker holds it, the newer form is enqueued again at the ack."""
        self.note_index(job_key(evaluation), evaluation.modify_index)
        known = self._tracked.get(evaluation.id)
        if known is None:
            came_ns = max(now_ns, evaluation.wait_until)
            self._tracked[evaluation.id] = _Tracked(
                evaluation, came_ns=came_ns, waits_since_ns=came_ns
            )
            if evaluation.wait_until > now_ns:
                self._set_alarm(evaluation.id, evaluation.wait_until)
            else:
                self._admit(evaluation.id)
        elif not known.token:
            known.evaluation = evaluation
        elif evaluation.modify_index > known.evaluation.modify_index:
            known.again = evaluation

    def note_index(self, key: JobKey, index: int) -> None:
        """Something of this job was written at `index`: its next evaluation must see it."""
        if index > self._job_indexes.get(key, 0):
            self._job_indexes[key] = index

    def discard(self, eval_id: str) -> None:
        """Forget an evaluation that ended without a worker; one that is held is left alone."""
        known = self._tracked.get(eval_id)
        if known is None or known.token:
            return
        del self._tracked[eval_id]
        key = job_key(known.evaluation)
        self._pending.get(key, {}).pop(eval_id, None)
        if self._active.get(key) == eval_id:
            self._release(key)

    # -- out -----------------------------------------------------------------------------------

    @property
    def has_any_ready(self) -> bool:
        """False: there is none. A quick look, which may be wrong the other way."""
        return any(self._ready.values())

    def has_ready(self, types: Collection[str]) -> bool:
        """Whether `dequeue` would find one."""
        return self._best_queue(types) is not None

    def dequeue(
        self, types: Collection[str], token: str, now_ns: int, *, fresh: bool = False
    ) -> Delivery | None:
        """The best ready evaluation of these types, held under `token` until ack, nack or
        time-out. Among types with equally urgent work the one served longest ago is next.
        `fresh`: none if a delivery of that one has failed before."""
        queue = self._best_queue(types)
        if queue is None or (fresh and self._tracked[self._ready[queue][0][3]].deliveries):
            return None
        eval_id = heapq.heappop(self._ready[queue])[3]
        self._served[queue] = next(self._order)
        tracked = self._tracked[eval_id]
        tracked.token = token
        tracked.ticket = 0
        tracked.deliveries += 1
        self._held.add(eval_id)
        self._set_alarm(eval_id, now_ns + self.limits.nack_timeout_ns)
        tracked.taken_ns = now_ns
        evaluation = tracked.evaluation
        times = self.times.setdefault(evaluation.type, EvalTimes())
        times.wait.observe(max(0, now_ns - tracked.waits_since_ns) / NS_PER_S)
        wait_index = max(
            self.floor_index,
            evaluation.modify_index,
            evaluation.snapshot_index,
            self._job_indexes.get(job_key(evaluation), 0),
        )
        return Delivery(evaluation, token, wait_index, tracked.deliveries > 1, tracked.workers_lost)

    def ack(self, eval_id: str, token: str, now_ns: int) -> None:
        """The evaluation is dealt with. Raises ConflictError when `token` does not hold it."""
        tracked = self._holder(eval_id, token)
        self._held.discard(eval_id)
        del self._tracked[eval_id]
        times = self.times.setdefault(tracked.evaluation.type, EvalTimes())
        times.process.observe(max(0, now_ns - tracked.taken_ns) / NS_PER_S)
        times.response.observe(max(0, now_ns - tracked.came_ns) / NS_PER_S)
        key = job_key(tracked.evaluation)
        self._cancel_older(key)
        self._release(key)
        if tracked.again is not None:
            self.enqueue(tracked.again, now_ns)

    def nack(self, eval_id: str, token: str, now_ns: int, *, worker_lost: bool = False) -> None:
        """The worker could not deal with it, or its process ended meanwhile: deliver it again
        later, or fail it."""
        tracked = self._holder(eval_id, token)
        tracked.workers_lost += worker_lost
        self._held.discard(eval_id)
        tracked.token = ""
        if tracked.again is not None:
            tracked.evaluation, tracked.again = tracked.again, None
        tracked.waits_since_ns = now_ns
        if tracked.deliveries >= self.limits.delivery_limit:
            self._push_ready(FAILED, tracked.evaluation)
            return
        tracked.waits_since_ns += self._nack_delay_ns(tracked.deliveries)
        self._set_alarm(eval_id, tracked.waits_since_ns)

    def give_back(self, eval_id: str, token: str) -> None:
        """The worker did not even begin: ready again at once, and no failed delivery."""
        tracked = self._holder(eval_id, token)
        self._held.discard(eval_id)
        tracked.token = ""
        tracked.deliveries -= 1
        tracked.alarm_ns = 0
        if tracked.again is not None:
            tracked.evaluation, tracked.again = tracked.again, None
        self._push_ready(tracked.evaluation.type, tracked.evaluation)

    def held(self) -> list[tuple[str, str]]:
        """(evaluation, token) of all that are out."""
        return [(eval_id, self._tracked[eval_id].token) for eval_id in self._held]

    def outstanding(self, eval_id: str) -> str:
        """The token under which an evaluation is held; empty when nobody holds it."""
        tracked = self._tracked.get(eval_id)
        return tracked.token if tracked else ""

    def extend(self, eval_id: str, token: str, now_ns: int) -> None:
        """Start the hold's time anew (its plan is waiting for the applier)."""
        self._holder(eval_id, token)
        self._set_alarm(eval_id, now_ns + self.limits.nack_timeout_ns)

    # -- time ----------------------------------------------------------------------------------

    def next_alarm_ns(self) -> int | None:
        """When `expire` has something to do next."""
        while self._alarms and not self._is_current(self._alarms[0]):
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def expire(self, now_ns: int) -> None:
        """Let time pass: end delays, take back what was held too long."""
        while (due_ns := self.next_alarm_ns()) is not None and due_ns <= now_ns:
            eval_id = heapq.heappop(self._alarms)[2]
            tracked = self._tracked[eval_id]
            tracked.alarm_ns = 0
            if tracked.token:
                self.nack(eval_id, tracked.token, now_ns)
            elif self._active.get(job_key(tracked.evaluation)) == eval_id:
                self._push_ready(tracked.evaluation.type, tracked.evaluation)
            else:
                self._admit(eval_id)

    # -- canceled work -------------------------------------------------------------------------

    @property
    def has_cancelable(self) -> bool:
        return bool(self._cancelable)

    def take_cancelable(self, limit: int) -> list[Evaluation]:
        """Up to `limit` evaluations that a newer one made needless; the caller records them as
        canceled."""
        ids = list(itertools.islice(self._cancelable, limit))
        return [self._cancelable.pop(eval_id) for eval_id in ids]

    def stats(self) -> BrokerStats:
        by_queue = {queue: sum(map(self._is_ready, heap)) for queue, heap in self._ready.items()}
        failed = by_queue.pop(FAILED, 0)
        pending = sum(len(ids) for ids in self._pending.values())
        ready = sum(by_queue.values())
        unacked = len(self._held)
        waiting = len(self._tracked) - ready - failed - pending - unacked
        return BrokerStats(ready, unacked, pending, waiting, len(self._cancelable), failed)

    def queues(self) -> dict[str, tuple[int, int]]:
        """Returns how many evaluations of each type of job are ready, and how many are held."""
        ready = {queue: sum(map(self._is_ready, heap)) for queue, heap in self._ready.items()}
        ready.pop(FAILED, None)
        held = Counter(self._tracked[eval_id].evaluation.type for eval_id in self._held)
        return {queue: (ready.get(queue, 0), held[queue]) for queue in ready.keys() | held.keys()}

    # -- inside --------------------------------------------------------------------------------

    def _admit(self, eval_id: str) -> None:
        evaluation = self._tracked[eval_id].evaluation
        key = job_key(evaluation)
        if key in self._active:
            self._pending.setdefault(key, {})[eval_id] = None
            return
        self._active[key] = eval_id
        self._push_ready(evaluation.type, evaluation)

    def _push_ready(self, queue: str, evaluation: Evaluation) -> None:
        ticket = self._tracked[evaluation.id].ticket = next(self._order)
        entry = (-evaluation.priority, evaluation.create_index, ticket, evaluation.id)
        heapq.heappush(self._ready.setdefault(queue, []), entry)

    def _best_queue(self, types: Iterable[str]) -> str | None:
        best: tuple[int, int] | None = None
        chosen = None
        for queue in types:
            heap = self._ready.get(queue)
            while heap and not self._is_ready(heap[0]):
                heapq.heappop(heap)
            if heap:
                rank = (heap[0][0], self._served.get(queue, 0))
                if best is None or rank < best:
                    best, chosen = rank, queue
        return chosen

    def _is_ready(self, entry: tuple[int, int, int, str]) -> bool:
        """Entries of evaluations discarded meanwhile stay in the heap until they surface."""
        tracked = self._tracked.get(entry[3])
        return tracked is not None and tracked.ticket == entry[2]

    def _holder(self, eval_id: str, token: str) -> _Tracked:
        tracked = self._tracked.get(eval_id)
        if tracked is None or not token or tracked.token != token:
            raise ConflictError(
                f"cannot use the token for evaluation {eval_id}: it is not held under it "
                "(acknowledged already, or its time ran out)"
            )
        return tracked

    def _release(self, key: JobKey) -> None:
        """The job's active evaluation is gone: the best pending one takes its place."""
        self._active.pop(key, None)
        pending = self._pending.get(key)
        if not pending:
            self._pending.pop(key, None)
            self._job_indexes.pop(key, None)
            return
        best = max(pending, key=self._urgency)
        del pending[best]
        self._admit(best)

    def _cancel_older(self, key: JobKey) -> None:
        pending = self._pending.get(key)
        if not pending:
            return
        best = max(pending, key=self._urgency)
        for eval_id in [other for other in pending if other != best]:
            del pending[eval_id]
            self._cancelable[eval_id] = self._tracked.pop(eval_id).evaluation

    def _urgency(self, eval_id: str) -> tuple[int, int, int]:
        evaluation = self._tracked[eval_id].evaluation
        return (evaluation.priority, evaluation.modify_index, evaluation.create_index)

    def _nack_delay_ns(self, deliveries: int) -> int:
        if deliveries <= 1:
            return self.limits.first_nack_delay_ns
        return (deliveries - 1) * self.limits.later_nack_delay_ns

    def _set_alarm(self, eval_id: str, when_ns: int) -> None:
        self._tracked[eval_id].alarm_ns = when_ns
        heapq.heappush(self._alarms, (when_ns, next(self._order), eval_id))

    def _is_current(self, alarm: tuple[int, int, str]) -> bool:
        tracked = self._tracked.get(alarm[2])
        return tracked is not None and tracked.alarm_ns == alarm[0]
