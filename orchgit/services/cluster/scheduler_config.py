"""Stores the cluster-wide settings of the scheduler."""

from __future__ import annotations

from orchgit.errors import InvalidInputError
from orchgit.model.operator import SchedulerConfig
from orchgit.replication.commands.settings import SetSchedulerConfig
from orchgit.services.context import UseCaseContext

ALGORITHMS = ("binpack", "spread")


async def set_scheduler_config(
    context: UseCaseContext, config: SchedulerConfig, expected_modify_index: int | None = None
) -> tuple[int, bool]:
    """Returns (index, whether the settings were changed).

    Where the modify index is not the expected one, nothing is changed and nothing is raised.
    """
    if config.scheduler_algorithm not in ALGORITHMS:
        raise InvalidInputError(f"invalid scheduler algorithm: {config.scheduler_algorithm}")
    command = SetSchedulerConfig(
        now_ns=context.now_ns(), config=config, expected_modify_index=expected_modify_index
    )
    return await context.propose_if_unchanged(command)
