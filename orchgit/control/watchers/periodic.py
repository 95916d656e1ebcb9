"""Launches periodic jobs: each launch is a child job `parent/periodic-<unix seconds>`.

The last launch of every job is in the state, so that a new leader neither repeats nor forgets one:
what fell due while nobody led is launched once.
"""

from __future__ import annotations

import structlog

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.bounded_gather import each_together
from orchgit.control.wakeup import Wakeup
from orchgit.control.watchers.periodic_rules import (
    is_tracked,
    missed_launch,
    next_launch_ns,
    overlaps,
)
from orchgit.errors import ConflictError, InvalidInputError, OrchgitError
from orchgit.ids import IdSource
from orchgit.model.child_jobs import child_of, launched_id, launched_ns
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.job import Job
from orchgit.model.new_evaluation import evaluation_of
from orchgit.replication.commands.jobs import JobUpsert, RecordPeriodicLaunch, RegisterJob
from orchgit.replication.events import AppliedBatch, EventNote
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

JobKey = tuple[str, str]

_RETRY_S = 5.0


class PeriodicDispatcher:
    """Keeps the next launch of every periodic job and sleeps until the earliest one."""

    def __init__(self, state: ReplicatedState, clock: Clock, ids: IdSource) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._changed = Wakeup(clock)
        self._due_ns: dict[JobKey, int] = {}
        self._versions: dict[JobKey, int] = {}
        """Modify index of each tracked job; its schedule is read again only after a change."""
        self._failed: dict[JobKey, tuple[int, int]] = {}
        """(time of the next try, due time) of each launch that failed."""

    def restore(self, snapshot: Snapshot) -> None:
        now_ns = self._clock.now_ns()
        for job in snapshot.jobs.periodic():
            self._track(job)
            last_ns = snapshot.periodic_launches.get(job.namespace, job.id) or 0
            if not is_tracked(job) or not self._missed(job, last_ns, now_ns):
                continue
            # The launch itself may be there, though a leader died before it had recorded it.
            children = snapshot.jobs.children_of(job.namespace, job.id)
            last_ns = max([last_ns, *(launched_ns(child_id) for child_id, _ in children)])
            if self._missed(job, last_ns, now_ns):
                self._due_ns[(job.namespace, job.id)] = now_ns
        self._changed.set()

    def take(self, batch: AppliedBatch) -> None:
        latest = self._state.store.latest
        ordinary = _registered_without_schedule(batch)
        for key in map(_split, batch.changed.get("jobs", ())):
            if key in self._versions or (key not in ordinary and latest().jobs.is_periodic(*key)):
                self._note(key, latest().jobs.get(*key))

    async def run(self) -> None:
        while True:
            retries_ns = (at_ns for at_ns, _ in self._failed.values())
            next_ns = min((*self._due_ns.values(), *retries_ns), default=None)
            await self._changed.wait_until_ns(next_ns)
            now_ns = self._clock.now_ns()
            again = [key for key, (at_ns, _) in self._failed.items() if at_ns <= now_ns]
            launches = [(key, self._failed.pop(key)[1]) for key in again]
            # One after the other of the same job: the second has to see whether the first runs.
            due = [
                key for key, at_ns in self._due_ns.items() if at_ns <= now_ns and key not in again
            ]
            launches += [(key, self._due_ns.pop(key)) for key in due]
            await each_together(self._launch, launches)

    # -- inside --------------------------------------------------------------------------------

    def _note(self, key: JobKey, job: Job | None) -> None:
        if job is None or not is_tracked(job):
            self._due_ns.pop(key, None)
            self._versions.pop(key, None)
            self._failed.pop(key, None)
        elif self._versions.get(key) != job.job_modify_index:
            self._track(job)
        self._changed.set()

    def _track(self, job: Job) -> None:
        """Notes when the job is due next; logs a warning for a schedule that cannot be read."""
        key = (job.namespace, job.id)
        if not is_tracked(job) or job.periodic is None:
            return
        try:
            due_ns = next_launch_ns(job.periodic, self._clock.now_ns())
        except InvalidInputError as error:
            _log.warning("periodic job has no launch time", job=job.id, error=str(error))
            due_ns = None
        self._versions[key] = job.job_modify_index
        if due_ns is None:
            self._due_ns.pop(key, None)
        else:
            self._due_ns[key] = due_ns

    def _missed(self, job: Job, last_ns: int, now_ns: int) -> bool:
        try:
            return missed_launch(job, last_ns, now_ns)
        except InvalidInputError:
            return False

    async def _launch(self, launch: tuple[JobKey, int]) -> None:
        key, due_ns = launch
        with self._state.store.snapshot() as snapshot:
            parent = snapshot.jobs.get(*key)
            statuses = [status for _, status in snapshot.jobs.children_of(*key)]
        if parent is None or not is_tracked(parent) or parent.periodic is None:
            return
        self._track(parent)
        if parent.periodic.prohibit_overlap and overlaps(statuses):
            _log.info("launch of a periodic job skipped: the last one still runs", job=parent.id)
            return
        try:
            await self._register(parent, due_ns)
            await self._record(parent, due_ns)
        except OrchgitError as error:
            _log.warning("cannot launch a periodic job", job=parent.id, error=str(error))
            again_ns = self._clock.now_ns() + round(_RETRY_S * SECOND_NS)
            self._failed[key] = (again_ns, due_ns)

    async def _register(self, parent: Job, due_ns: int) -> None:
        """Registers the child, then records the launch: after a crash in between, the repeated
        launch finds the child registered."""
        now_ns = self._clock.now_ns()
        child = child_of(parent, launched_id(parent, due_ns), now_ns)
        evaluation = evaluation_of(child, EvalTrigger.PERIODIC_JOB, self._ids, now_ns)
        upsert = JobUpsert(job=child, expected_modify_index=0)
        try:
            await self._state.propose(
                RegisterJob(now_ns=now_ns, upsert=upsert, evaluation=evaluation)
            )
        except ConflictError:
            _log.info("periodic job is launched for this time already", job=parent.id)

    async def _record(self, parent: Job, due_ns: int) -> None:
        await self._state.propose(
            RecordPeriodicLaunch(
                now_ns=self._clock.now_ns(),
                namespace=parent.namespace,
                job_id=parent.id,
                launch_time_ns=due_ns,
            )
        )


def _registered_without_schedule(batch: AppliedBatch) -> set[JobKey]:
    """Returns the newly registered jobs that are not periodic, so that the dispatcher need not read
    them."""
    subjects = [note.subject for note in batch.effects.notes if isinstance(note, EventNote)]
    jobs = [subject for subject in subjects if isinstance(subject, Job)]
    periodic = {(job.namespace, job.id) for job in jobs if job.is_periodic}
    return {(job.namespace, job.id) for job in jobs} - periodic


def _split(key: str) -> JobKey:
    namespace, _, job_id = key.partition("/")
    return namespace, job_id
