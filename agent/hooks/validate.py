"""Refuses users that tasks of a driver may not run as, before anything is made for the task."""

from __future__ import annotations

from agent.drivers.base import ChecksUsers, Driver
from agent.hooks.base import SetupError, TaskSetup


def check(setup: TaskSetup, driver: Driver) -> None:
    """Raises SetupError for a user that the agent's configuration denies."""
    name = setup.environment().interpolate.text(setup.task.user)
    if name and isinstance(driver, ChecksUsers) and driver.denies_user(name):
        raise SetupError(f'validate: running as user "{name}" is disallowed')
