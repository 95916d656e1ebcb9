"""Stores autopilot's settings."""

from __future__ import annotations

from orchgit.errors import InvalidInputError
from orchgit.model.operator import AutopilotConfig
from orchgit.replication.commands.settings import SetAutopilotConfig
from orchgit.services.context import UseCaseContext


async def set_autopilot_config(
    context: UseCaseContext, config: AutopilotConfig, expected_modify_index: int | None = None
) -> tuple[int, bool]:
    """Returns (index, whether the settings were changed).

    Where the modify index is not the expected one, nothing is changed and nothing is raised.
    """
    limits = {
        "LastContactThreshold": config.last_contact_threshold_ns,
        "ServerStabilizationTime": config.server_stabilization_time_ns,
        "MaxTrailingLogs": config.max_trailing_logs,
        "MinQuorum": config.min_quorum,
    }
    if negative := [name for name, value in limits.items() if value < 0]:
        raise InvalidInputError(f"cannot set autopilot: {', '.join(negative)} is negative")
    command = SetAutopilotConfig(
        now_ns=context.now_ns(), config=config, expected_modify_index=expected_modify_index
    )
    return await context.propose_if_unchanged(command)
