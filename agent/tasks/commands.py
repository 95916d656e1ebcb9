"""Commands of the job that run in a task which runs: actions, and the scripts of checks. References
in them are replaced by what the task's environment is then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from agent.drivers.base import ExecResult
from agent.hooks.base import TaskSetup
from orchgit.errors import NotFoundError


class CommandTarget(Protocol):
    """See `TaskRunner`."""

    def setup(self) -> TaskSetup: ...

    async def run_command(self, command: list[str], timeout_s: float) -> ExecResult: ...


def action_command(setup: TaskSetup, name: str) -> list[str]:
    """Returns the command line of an action of the task. Raises NotFoundError."""
    for action in setup.task.actions or ():
        if action.name == name:
            command = [action.command, *(action.args or ())]
            return setup.environment().interpolate.tree(command)
    raise NotFoundError(f'task "{setup.task.name}" has no action "{name}"')


def script_runner(task: CommandTarget) -> Callable[[list[str], float], Awaitable[ExecResult]]:
    """Returns what runs the script of a check in the task."""

    async def run(command: list[str], timeout_s: float) -> ExecResult:
        given = task.setup().environment().interpolate.tree(command)
        return await task.run_command(given, timeout_s)

    return run
