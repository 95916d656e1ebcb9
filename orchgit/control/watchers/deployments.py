"""Applies the deployment rules to every active deployment that may have changed."""

from __future__ import annotations

import logging

import msgspec
import structlog

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.bounded_gather import each_together
from orchgit.control.large_reads import read_state
from orchgit.control.wakeup import Wakeup
from orchgit.control.watchers.deployment_rules import DeploymentDecision, HealthyAllocations, judge
from orchgit.errors import ConflictError, OrchgitError, RefusedError
from orchgit.ids import IdSource
from orchgit.model.allocation import DesiredTransition
from orchgit.model.deployment import Deployment, DeploymentStatus, DeploymentStatusUpdate
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.job import Job
from orchgit.model.new_evaluation import evaluation_of
from orchgit.replication.commands.allocations import UpdateAllocTransitions
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.deployments import FailDeployment, PromoteDeployment
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.events import AppliedBatch
from orchgit.replication.replicated import ReplicatedState
from orchgit.scheduler.auto_revert import auto_revert
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

_RETRY_S = 1.0
_REST_FACTOR = 10.0
_REST_MAX_S = 2.0


class DeploymentWatcher:
    """Watches deployments: `take` marks those that may have changed, `run` judges the marked
    ones."""

    def __init__(self, state: ReplicatedState, clock: Clock, ids: IdSource) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._changed = Wakeup(clock)
        self._marked: dict[str, None] = {}
        self._memories: dict[str, HealthyAllocations] = {}
        self._alarms_ns: dict[str, int] = {}
        self._rests_until_s: dict[str, float] = {}

    def restore(self, snapshot: Snapshot) -> None:
        self._mark(snapshot.deployments.active_ids())

    def take(self, batch: AppliedBatch) -> None:
        self._mark(batch.changed.get("deployments", ()))
        self._mark(batch.changed.get("allocations_by_deployment", ()))

    async def run(self) -> None:
        while True:
            await self._changed.wait_until_ns(min(self._alarms_ns.values(), default=None))
            now_ns = self._clock.now_ns()
            for deployment_id in [key for key, at_ns in self._alarms_ns.items() if at_ns <= now_ns]:
                del self._alarms_ns[deployment_id]
                self._marked[deployment_id] = None
            marked, self._marked = self._marked, {}
            awake = [deployment_id for deployment_id in marked if not self._rests(deployment_id)]
            await each_together(self._look, awake)

    # -- inside --------------------------------------------------------------------------------

    def _mark(self, ids: object) -> None:
        self._marked.update(dict.fromkeys(ids))  # type: ignore[call-overload]
        if self._marked:
            self._changed.set()

    def _rests(self, deployment_id: str) -> bool:
        """Returns whether a deployment is judged later. A large deployment takes long to judge, so
        it rests in between instead of being judged at every report of every agent; changes
        meanwhile are judged after the rest."""
        left_s = self._rests_until_s.get(deployment_id, 0.0) - self._clock.monotonic_s()
        if left_s <= 0:
            return False
        due_ns = self._clock.now_ns() + round(left_s * SECOND_NS)
        known_ns = self._alarms_ns.get(deployment_id, due_ns)
        self._alarms_ns[deployment_id] = min(due_ns, known_ns)
        return True

    async def _look(self, deployment_id: str) -> None:
        began_s = self._clock.monotonic_s()
        found = await read_state(
            self._state.store,
            lambda snapshot: self._judged(snapshot, deployment_id),
            lambda snapshot: _placed(snapshot.deployments.get(deployment_id)),
        )
        if found is None:
            for known in (self._memories, self._alarms_ns, self._rests_until_s):
                known.pop(deployment_id, None)
            return
        commands, look_again_ns = found
        now_s = self._clock.monotonic_s()
        self._rests_until_s[deployment_id] = now_s + min(
            _REST_MAX_S, (now_s - began_s) * _REST_FACTOR
        )
        self._set_alarm(deployment_id, look_again_ns)
        try:
            for command in commands:
                await self._state.propose(command)
        except OrchgitError as error:
            meanwhile = isinstance(error, ConflictError | RefusedError)
            level = logging.INFO if meanwhile else logging.WARNING
            _log.log(
                level, "cannot act on a deployment", deployment=deployment_id, error=str(error)
            )
            self._memories.pop(deployment_id, None)
            self._set_alarm(deployment_id, self._clock.now_ns() + round(_RETRY_S * SECOND_NS))

    def _judged(
        self, snapshot: Snapshot, deployment_id: str
    ) -> tuple[list[Command], int | None] | None:
        """Returns what to do about the deployment, and when to look again; None if it is over."""
        deployment = snapshot.deployments.get(deployment_id)
        if deployment is None or not deployment.is_active:
            return None
        memory = self._memories.setdefault(deployment_id, HealthyAllocations())
        allocations = snapshot.allocations.of_deployment(deployment_id)
        job = snapshot.job_versions.get(
            deployment.namespace, deployment.job_id, deployment.job_version
        )
        policies = {each.name: each.reschedule_policy for each in job.task_groups} if job else {}
        verdict = judge(deployment, allocations, memory, self._clock.now_ns(), policies)
        return self._commands(snapshot, deployment, verdict), verdict.look_again_ns

    def _set_alarm(self, deployment_id: str, at_ns: int | None) -> None:
        if at_ns is None:
            self._alarms_ns.pop(deployment_id, None)
        else:
            self._alarms_ns[deployment_id] = at_ns

    def _commands(
        self, snapshot: Snapshot, deployment: Deployment, verdict: DeploymentDecision
    ) -> list[Command]:
        """Returns the commands that carry out the decision; each contains its evaluation."""
        job = snapshot.jobs.get(deployment.namespace, deployment.job_id)
        if job is None:
            return []
        if verdict.fail:
            return [self._failure(snapshot, deployment, job, verdict)]
        now_ns = self._clock.now_ns()
        commands: list[Command] = []
        if verdict.replace:
            transitions = {key: DesiredTransition(reschedule=True) for key in verdict.replace}
            commands.append(
                UpdateAllocTransitions(
                    now_ns=now_ns,
                    transitions=transitions,
                    evaluations=[self._evaluation(job, deployment)],
                )
            )
        if verdict.promote:
            commands.append(
                PromoteDeployment(
                    now_ns=now_ns,
                    deployment_id=deployment.id,
                    groups=list(verdict.promote),
                    evaluation=self._evaluation(job, deployment),
                )
            )
        elif verdict.evaluate and not verdict.replace:
            evaluation = self._evaluation(job, deployment)
            commands.append(UpsertEvaluations(now_ns=now_ns, evaluations=[evaluation]))
        return commands

    def _evaluation(self, job: Job, deployment: Deployment) -> Evaluation:
        return evaluation_of(
            job,
            EvalTrigger.DEPLOYMENT_WATCHER,
            self._ids,
            self._clock.now_ns(),
            deployment_id=deployment.id,
            priority=deployment.eval_priority,
        )

    def _failure(
        self, snapshot: Snapshot, deployment: Deployment, job: Job, verdict: DeploymentDecision
    ) -> FailDeployment:
        """Returns the command that ends the deployment as failed and, if decided, reverts the job
        to its last stable version."""
        versions = snapshot.job_versions.of_job(deployment.namespace, deployment.job_id)
        revert = auto_revert(deployment, verdict.fail, verdict.revert, versions)
        now_ns = self._clock.now_ns()
        update = DeploymentStatusUpdate(
            deployment_id=deployment.id,
            status=DeploymentStatus.FAILED,
            status_description=revert.description,
            updated_at=now_ns,
        )
        again = revert.job and msgspec.structs.replace(revert.job, submit_time_ns=now_ns)
        return FailDeployment(
            now_ns=now_ns,
            update=update,
            job=again,
            expected_modify_index=job.job_modify_index,
            evaluation=self._evaluation(job, deployment),
        )


def _placed(deployment: Deployment | None) -> int:
    groups = deployment.task_groups if deployment is not None else {}
    return sum(state.placed_allocs for state in groups.values())
