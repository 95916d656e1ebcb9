"""What the person who pushed reads while the rollout goes on: each change, why a job failed, and
where the services are at the end."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.gitops.mirrors.quorum import Say
from orchgit.gitops.rollouts.report import RolloutReporter
from orchgit.gitops.rollouts.rollout_text import RolloutText, end_line
from orchgit.gitops.rollouts.service_addresses import service_lines
from orchgit.gitops.rollouts.task_failures import failure_lines
from orchgit.gitops.rollouts.tracker import RolloutTracker
from orchgit.model.rollout import Rollout, RolloutStatus


@dataclass(frozen=True, slots=True)
class PushProgress:
    """Follows a rollout for the person who pushed its commit."""

    tracker: RolloutTracker
    reporter: RolloutReporter

    async def follow(self, rollout: Rollout, say: Say) -> None:
        """Says how the rollout goes until it has ended, why jobs failed, and where the services of
        a healthy one are. Raises UnavailableError when this server stops or no longer leads."""
        text = RolloutText()
        latest = rollout
        async for latest in self.tracker.follow(rollout):
            for line in text.lines(latest):
                await say(line)
            for job in text.newly_failed(latest):
                for failure in await self.reporter.failures(job):
                    await say("\n".join(failure_lines(failure)))
        await say(end_line(latest))
        if latest.status == RolloutStatus.HEALTHY:
            for line in service_lines(await self.reporter.services(latest)):
                await say(line)
