"""What applied batches bring to the broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orchgit.clock import FakeClock
from orchgit.control.evaluations.blocked import BlockedEvals
from orchgit.control.evaluations.broker import EvalBroker
from orchgit.control.evaluations.intake import EvalIntake
from orchgit.control.evaluations.queue import EvalQueue
from orchgit.ids import SequentialIds
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.replication.events import AppliedBatch, Effects
from orchgit.state.changes import Changes
from tests.support.factories import make_evaluation
from tests.support.state import open_store


def test_evaluation_that_ended_within_its_batch_is_not_delivered(
    tmp_path: Path,
) -> None:
    """A reader that falls behind gets several batches as one."""
    store = open_store(tmp_path)
    queue = EvalQueue(EvalBroker(), FakeClock(), SequentialIds())
    intake = EvalIntake(store, queue, BlockedEvals())

    def take(*evaluations: Evaluation) -> None:
        effects = Effects(evaluations=list(evaluations))
        intake.take(AppliedBatch(5, Changes(), effects, store.snapshot))

    async def run() -> None:
        ended = make_evaluation(id="e", status=EvalStatus.CANCELLED, modify_index=5)
        take(make_evaluation(id="e", modify_index=4), make_evaluation(id="other"), ended)
        handed = await queue.dequeue(("service",), 0, 8)
        assert [each.evaluation.id for each in handed] == ["other"]

    asyncio.run(run())
    store.close()
