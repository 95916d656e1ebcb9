"""Applies the later stages of rollouts, on the leader, as soon as each opens.

The tracker judges when a stage opens. All that a stage needs is in the state and in the mirror, so
a new leader goes on where the last one stopped, and a stage is applied once whoever leads.
"""

from __future__ import annotations

import asyncio

import structlog
from msgspec.structs import replace

from orchgit.backoff import backoff_s
from orchgit.errors import ConflictError, OrchgitError, SourceError
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.rollouts.health import JobProgress
from orchgit.gitops.rollouts.job_views import LaterRollouts
from orchgit.gitops.rollouts.tracker import judge
from orchgit.model.rollout import Rollout
from orchgit.services.gitops.rollouts import record_rollout

_FIRST_RETRY_S = 0.5
_MAX_RETRY_S = 30.0
_MAX_PROBLEM = 500

_log = structlog.get_logger(component="gitops")


class StageRunner:
    """Applies the open stage of a source's rollout when asked; one at a time for each source."""

    def __init__(self, services: CommitServices, patience_s: float) -> None:
        self._services = services
        self._patience_ns = int(patience_s * 1e9)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self._problems: dict[str, str] = {}

    def apply_open_stage(self, source_name: str) -> None:
        """Starts to apply the open stage of the source's rollout, unless that is under way. Call it
        in the event loop's thread."""
        if source_name not in self._tasks:
            task = asyncio.create_task(self._run(source_name), name=f"stage of {source_name}")
            self._tasks[source_name] = task
            task.add_done_callback(lambda _: self._tasks.pop(source_name, None))

    def problem(self, source_name: str) -> str:
        """Returns why the open stage of the source's rollout cannot be applied yet, or ''. In any
        thread."""
        return self._problems.get(source_name, "")

    async def stop(self) -> None:
        """Ends what is under way. A stage is then in the log whole, or not at all."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._failures.clear()
        self._problems.clear()

    async def _run(self, source_name: str) -> None:
        try:
            await self._apply(source_name)
            self._failures.pop(source_name, None)
            self._problems.pop(source_name, None)
        except ConflictError:
            return  # the tracker judges the newer state, and asks again
        except OrchgitError as error:
            failures = self._failures[source_name] = self._failures.get(source_name, 0) + 1
            self._problems[source_name] = str(error)[:_MAX_PROBLEM]
            _log.warning("cannot apply a stage", source=source_name, error=str(error))
            await self._services.context.clock.sleep(
                backoff_s(min(failures, 8), _FIRST_RETRY_S, _MAX_RETRY_S)
            )

    async def _apply(self, source_name: str) -> None:
        services, applier = self._services, self._services.applier
        mirror, cache = services.mirror_of(source_name), services.caches.of(source_name)
        await services.synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            rollout, stage = self._open_stage(source_name)
            if rollout is None or stage is None:
                return
            repository, commit_id = mirror.open(), rollout.commit.id
            if not repository.has_commit(commit_id):
                raise SourceError(
                    f"cannot apply stage {stage + 1} of rollout {rollout.id[:8]} yet: this server "
                    f"lacks commit {commit_id[:12]} and is fetching it from the other servers"
                )
            source = applier.source(source_name)
            read = await applier.read(
                repository, commit_id, source, cache, since=rollout.previous_commit
            )
            plan = await applier.plan(read, source_name, cache)
            if plan.problems:
                await self._fail(rollout, stage, plan.problems[0])
                return
            applied = await applier.apply_stage(read, plan, rollout, stage, cache)
        _log.info(
            "stage applied",
            source=source_name,
            commit=commit_id,
            rollout=applied.id,
            stage=stage + 1,
        )

    def _open_stage(self, source_name: str) -> tuple[Rollout | None, int | None]:
        """Returns the source's rollout as it is now, and its open stage, or None for either."""
        context = self._services.context
        with context.snapshot() as snapshot:
            source = snapshot.sources.get(source_name)
            applied = source.status.applied_rollout if source is not None else ""
            rollout = snapshot.rollouts.get(applied)
            if rollout is None or rollout.is_terminal:
                return None, None
            later = LaterRollouts(snapshot)
            return judge(snapshot, rollout, context.now_ns(), self._patience_ns, later)

    async def _fail(self, rollout: Rollout, stage: int, problem: str) -> None:
        """Records that the stage cannot be applied; the tracker then ends the rollout."""
        jobs = [
            replace(job, status=JobProgress.FAILED, description=f"cannot be applied: {problem}")
            if job.status == JobProgress.WAITING and job.stage == stage
            else job
            for job in rollout.jobs
        ]
        failed = replace(rollout, jobs=jobs)
        await record_rollout(
            self._services.context, failed, expected_modify_index=rollout.modify_index
        )
