"""What people ask about a rollout: why jobs failed, and where its services are reached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from orchgit.gitops.rollouts.health import JobProgress
from orchgit.gitops.rollouts.service_addresses import (
    MAX_SERVICES,
    ServiceAddress,
    addresses_of,
)
from orchgit.gitops.rollouts.task_failures import TaskFailure, last_lines, task_failures
from orchgit.model.base import Model
from orchgit.model.rollout import JobAction, Rollout, RolloutJob
from orchgit.services.context import UseCaseContext
from orchgit.state.service_catalog import services_of_job

FAILED_STATUSES = frozenset((JobProgress.FAILED, JobProgress.REVERTED))
MAX_EXPLAINED = 10
"""How many failed jobs of a rollout are explained."""
_MAX_JOBS = 500
_OUTPUT_BYTES = 2_000


class TaskLogs(Protocol):
    """Reads the output of tasks, whichever node they ran on."""

    async def tail(self, alloc_id: str, task: str, stream: str, max_bytes: int) -> bytes:
        """Returns the last bytes of `stdout` or `stderr`; b'' where they cannot be read."""
        ...


class NoLogs:
    """`TaskLogs` where there are no agents."""

    async def tail(self, alloc_id: str, task: str, stream: str, max_bytes: int) -> bytes:
        return b""


class RolloutReport(Model):
    """Why jobs of a rollout failed, and the addresses of its services, both bounded."""

    rollout_id: str = ""
    failures: list[TaskFailure] = []
    services: list[ServiceAddress] = []


@dataclass(frozen=True, slots=True)
class RolloutReporter:
    """Explains rollouts from the state, and from the output of tasks."""

    context: UseCaseContext
    logs: TaskLogs

    async def report(self, rollout: Rollout) -> RolloutReport:
        """Returns why the first failed jobs failed, and where the services of the others are."""
        failed = [job for job in rollout.jobs if job.status in FAILED_STATUSES]
        failures = [await self.failures(job) for job in failed[:MAX_EXPLAINED]]
        return RolloutReport(
            rollout_id=rollout.id,
            failures=[failure for of_job in failures for failure in of_job],
            services=await self.services(rollout),
        )

    async def failures(self, job: RolloutJob) -> Sequence[TaskFailure]:
        """Returns the different ways in which the job's tasks failed, with their output."""

        def found() -> Sequence[TaskFailure]:
            with self.context.snapshot() as snapshot:
                allocations = snapshot.allocations.of_job(job.namespace, job.job_id)
            return task_failures(allocations, job.job_version)

        return [await self._with_output(each) for each in await asyncio.to_thread(found)]

    async def _with_output(self, failure: TaskFailure) -> TaskFailure:
        """Adds the end of the task's stderr, or of its stdout if stderr is empty."""
        for stream in ("stderr", "stdout") if failure.has_output else ():
            found = await self.logs.tail(failure.alloc_id, failure.task, stream, _OUTPUT_BYTES)
            if found.strip():
                return replace(failure, output=last_lines(found), stream=stream)
        return failure

    async def services(self, rollout: Rollout) -> list[ServiceAddress]:
        """Returns the addresses of the services of the rollout's jobs that are healthy; at most
        `MAX_SERVICES` services, of the first 500 jobs."""
        jobs = [
            job
            for job in rollout.jobs
            if job.action != JobAction.DELETE and job.status == JobProgress.HEALTHY
        ]

        def found() -> list[ServiceAddress]:
            services: list[ServiceAddress] = []
            with self.context.snapshot() as snapshot:
                for job in jobs[:_MAX_JOBS]:
                    listed = services_of_job(snapshot, job.namespace, job.job_id)
                    services += addresses_of(listed)
                    if len(services) >= MAX_SERVICES:
                        break
            return services[:MAX_SERVICES]

        return await asyncio.to_thread(found)
