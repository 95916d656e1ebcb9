"""The task's identities: signed by the servers, given to it in its environment and as files."""

from __future__ import annotations

from agent.hooks.base import TaskSetup
from agent.identities.placement import place
from orchgit.model.workload_identity import identities_of


async def prepare(setup: TaskSetup) -> None:
    setup.results.env.clear()
    await place(setup, [each for each in identities_of(setup.task) if each.env or each.file])
