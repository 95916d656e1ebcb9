"""What the person who pushed reads while the rollout goes on: each change, and why a job failed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from orchgit.gitops.mirrors.quorum import Say
from orchgit.gitops.remote.push_text import RolloutText, end_line
from orchgit.gitops.rollouts.task_failures import (
    TaskFailure,
    failure_lines,
    last_lines,
    task_failures,
)
from orchgit.gitops.rollouts.tracker import RolloutTracker
from orchgit.model.allocation import Allocation
from orchgit.model.rollout import Rollout, RolloutJob
from orchgit.services.context import UseCaseContext

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


@dataclass(frozen=True, slots=True)
class PushProgress:
    """Follows a rollout for the person who pushed its commit."""

    context: UseCaseContext
    tracker: RolloutTracker
    logs: TaskLogs

    async def follow(self, rollout: Rollout, say: Say) -> None:
        """Says how the rollout goes until it has ended, and why jobs failed. Raises
        UnavailableError when this server stops or no longer leads."""
        text = RolloutText()
        latest = rollout
        async for latest in self.tracker.follow(rollout):
            for line in text.lines(latest):
                await say(line)
            for job in text.newly_failed(latest):
                await self._explain(job, say)
        await say(end_line(latest))

    async def _explain(self, job: RolloutJob, say: Say) -> None:
        def allocations() -> Sequence[Allocation]:
            with self.context.snapshot() as snapshot:
                return snapshot.allocations.of_job(job.namespace, job.job_id)

        for failure in task_failures(await asyncio.to_thread(allocations), job.job_version):
            output = await self._output(failure) if failure.has_output else b""
            await say("\n".join(failure_lines(failure, last_lines(output))))

    async def _output(self, failure: TaskFailure) -> bytes:
        """Returns the end of the task's stderr, or of its stdout if stderr is empty."""
        for stream in ("stderr", "stdout"):
            found = await self.logs.tail(failure.alloc_id, failure.task, stream, _OUTPUT_BYTES)
            if found.strip():
                return found
        return b""
