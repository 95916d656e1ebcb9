"""Ends the evaluations that no worker ends: needless ones, and those delivered too often.

Each ack lets one batch of canceled evaluations be written, so canceling never outruns scheduling.
A sweep every few seconds cancels the rest when the cluster is quiet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import structlog

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.evaluations.blocked import BlockedEvals
from orchgit.control.evaluations.broker import FAILED, Delivery
from orchgit.control.evaluations.queue import EvalQueue
from orchgit.errors import OrchgitError
from orchgit.ids import IdSource
from orchgit.model.evaluation import EvalStatus, EvalTrigger, Evaluation
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.replicated import ReplicatedState

_log = structlog.get_logger(component="control")

CANCEL_BATCH = 500
SWEEP_S = 5.0
FOLLOW_UP_MIN_S = 60.0
FOLLOW_UP_SPREAD_S = 300.0
FAILED_POLL_S = 60.0


class EvalReaper:
    """`run_canceled` and `run_failed` are two loops."""

    def __init__(
        self,
        state: ReplicatedState,
        queue: EvalQueue,
        blocked: BlockedEvals,
        clock: Clock,
        ids: IdSource,
        delivery_limit: int,
        chance: random.Random | None = None,
    ) -> None:
        self._state = state
        self._queue = queue
        self._blocked = blocked
        self._clock = clock
        self._ids = ids
        self._delivery_limit = delivery_limit
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing

    async def run_canceled(self) -> None:
        while True:
            await self._queue.needless.wait(SWEEP_S)
            await self._cancel_batch()

    async def run_failed(self) -> None:
        while True:
            for delivery in await self._queue.dequeue((FAILED,), FAILED_POLL_S):
                await self._record_failure(delivery)

    async def _record_failure(self, delivery: Delivery) -> None:
        failed, follow_up = self._failed(delivery)
        try:
            await self._store([failed, follow_up])
            self._queue.ack(failed.id, delivery.token)
        except OrchgitError as error:
            _log.warning("cannot record an evaluation as failed", eval=failed.id, error=str(error))
            self._queue.nack(failed.id, delivery.token)

    async def _cancel_batch(self) -> None:
        needless = self._queue.take_cancelable(CANCEL_BATCH)
        needless += self._blocked.take_cancelable(CANCEL_BATCH - len(needless))
        if not needless:
            return
        with self._state.store.snapshot() as snapshot:
            current = [snapshot.evaluations.get(evaluation.id) for evaluation in needless]
        now_ns = self._clock.now_ns()
        canceled = [
            msgspec.structs.replace(
                evaluation,
                status=EvalStatus.CANCELLED,
                status_description="canceled after more recent eval was processed",
                modify_time_ns=now_ns,
            )
            for evaluation in current
            if evaluation is not None and not evaluation.is_terminal
        ]
        try:
            if canceled:
                await self._store(canceled)
        except OrchgitError as error:
            _log.warning("cannot cancel evaluations", count=len(canceled), error=str(error))
            self._blocked.return_cancelable(canceled)

    def _failed(self, delivery: Delivery) -> tuple[Evaluation, Evaluation]:
        """The evaluation as failed, and the one that tries again in some minutes."""
        evaluation = delivery.evaluation
        now_ns = self._clock.now_ns()
        delay_s = FOLLOW_UP_MIN_S + self._chance.random() * FOLLOW_UP_SPREAD_S
        follow_up = Evaluation(
            id=self._ids.new(),
            namespace=evaluation.namespace,
            priority=evaluation.priority,
            type=evaluation.type,
            triggered_by=EvalTrigger.FAILED_FOLLOW_UP,
            job_id=evaluation.job_id,
            job_modify_index=evaluation.job_modify_index,
            status=EvalStatus.PENDING,
            wait_until=now_ns + round(delay_s * SECOND_NS),
            previous_eval=evaluation.id,
            rollout_id=evaluation.rollout_id,
            create_time_ns=now_ns,
            modify_time_ns=now_ns,
        )
        failed = msgspec.structs.replace(
            evaluation,
            status=EvalStatus.FAILED,
            status_description=self._why(delivery),
            next_eval=follow_up.id,
            modify_time_ns=now_ns,
        )
        return failed, follow_up

    def _why(self, delivery: Delivery) -> str:
        why = f"evaluation reached delivery limit ({self._delivery_limit})"
        if not delivery.workers_lost:
            return why
        return (
            f"{why}: the process of its scheduler worker ended at {delivery.workers_lost} "
            "deliveries, by itself or past the deadline of one evaluation; see the servers' logs"
        )

    async def _store(self, evaluations: Sequence[Evaluation]) -> None:
        await self._state.propose(
            UpsertEvaluations(now_ns=self._clock.now_ns(), evaluations=list(evaluations))
        )
