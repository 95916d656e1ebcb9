"""The entry: one evaluation, one view of the cluster, one outcome. Pure: equal in, equal out."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.ids import IdSource, RandomIds
from orchgit.model.evaluation import EvalStatus, EvalTrigger, Evaluation
from orchgit.model.job import JobType
from orchgit.scheduler.inputs import SchedulingInputs
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.service_job import schedule_service
from orchgit.scheduler.system_job import schedule_system

_NOT_FOR_SYSTEM = (EvalTrigger.RETRY_FAILED_ALLOC, EvalTrigger.ALLOC_RESCHEDULE)
_KNOWN_TRIGGERS = frozenset(EvalTrigger)
_RANDOM_IDS = RandomIds()


def schedule(
    evaluation: Evaluation,
    view: ClusterView,
    now_ns: int,
    seed: int,
    ids: IdSource = _RANDOM_IDS,
) -> SchedulingOutcome:
    """What to do about `evaluation` in the state `view`.

    `seed` decides between equal nodes and chooses ports; `ids` names new objects. The outcome's
    evaluation is `complete`, `blocked` (it was blocked and still cannot be satisfied) or `failed`
    (its trigger is not one this type of scheduler handles).
    """
    is_system = evaluation.type in (JobType.SYSTEM, JobType.SYSBATCH)
    trigger = evaluation.triggered_by
    if trigger not in _KNOWN_TRIGGERS or (is_system and trigger in _NOT_FOR_SYSTEM):
        problem = f"scheduler cannot handle '{trigger}' evaluation reason"
        failed = replace(evaluation, status=EvalStatus.FAILED, status_description=problem)
        return SchedulingOutcome(failed)
    inputs = SchedulingInputs(evaluation, view, now_ns, seed, ids)
    return schedule_system(inputs) if is_system else schedule_service(inputs)
