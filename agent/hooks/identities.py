"""The task's identities: signed by the servers, given to it in its environment and as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

import structlog

from agent.hooks.base import SetupError, TaskSetup
from agent.hooks.files import write_inside
from agent.paths import PRIVATE
from agent.tasks.task_state import TaskEventType
from orchgit.clock import SECOND_NS
from orchgit.errors import OrchgitError, UnavailableError
from orchgit.model.allocation import TaskEvent
from orchgit.model.workload_identity import WantedIdentity, WorkloadIdentity, identities_of

_log = structlog.get_logger(component="agent")
_RETRY_S = 15.0
_IN_IMAGE, _ALONE = 0o644, 0o600
"""Modes of files. A task in an image may run as any of its users; the closed directory around its
files keeps the node's other users out."""


async def prepare(setup: TaskSetup) -> None:
    setup.identity_env = {}
    await _place(setup, [each for each in identities_of(setup.task) if each.env or each.file])


class RunningTask(Protocol):
    """What is done with a task whose tokens were renewed: see `TaskRunner`."""

    def setup(self) -> TaskSetup: ...

    def restart(self, because: TaskEvent) -> None: ...

    async def signal(self, signal: str, reason: str) -> None: ...


async def keep_current(task: RunningTask, at_once: bool) -> None:
    """Has the running task's tokens that expire signed anew when half of their time is over, and
    does what their `change_mode` says. `at_once`: nobody knows how old the tokens are."""
    while True:
        setup = task.setup()
        ending = [
            each for each in identities_of(setup.task) if each.ttl_ns and (each.env or each.file)
        ]
        if not ending:
            return
        wait_s = min(each.ttl_ns for each in ending) / 2 / SECOND_NS
        await setup.clock.sleep(0 if at_once else wait_s)
        at_once = False
        try:
            await _place(task.setup(), ending)
        except SetupError as error:
            _log.warning(
                "cannot renew the identities of a task; trying again",
                alloc=setup.alloc.id,
                task=setup.task.name,
                error=str(error),
            )
            await setup.clock.sleep(min(wait_s, _RETRY_S))
            at_once = True
            continue
        for identity in ending:
            reason = f"Identity[{identity.name}] was renewed"
            if identity.change_mode == "restart":
                type_, now_ns = TaskEventType.RESTART_REQUESTED, setup.clock.now_ns()
                task.restart(TaskEvent(type=type_, time_ns=now_ns, display_message=reason))
            elif identity.change_mode == "signal":
                try:
                    await task.signal(identity.change_signal, reason)
                except OrchgitError as error:
                    _log.warning("cannot tell a task of its new identity", error=str(error))


async def _place(setup: TaskSetup, given: Sequence[WorkloadIdentity]) -> None:
    """Puts tokens of these identities into the setup's environment and the task's files."""
    if not given:
        return
    wanted = [WantedIdentity(setup.alloc.id, setup.task.name, each.name) for each in given]
    try:
        signed = await setup.sign_identities(wanted)
    except OrchgitError as error:
        raise SetupError(str(error), recoverable=isinstance(error, UnavailableError)) from None
    for identity, token in zip(given, (each.token for each in signed), strict=True):
        if identity.env:
            name = "NOMAD_TOKEN" if identity.is_default else f"NOMAD_TOKEN_{identity.name}"
            setup.identity_env[name] = token
        if identity.file:
            user = None if setup.isolation == "image" else setup.user()
            write_inside(
                setup.paths.task_dir,
                _path(identity),
                token.encode(),
                _IN_IMAGE if setup.isolation == "image" else _ALONE,
                user.uid if user is not None else None,
                user.gid if user is not None else None,
            )


def _path(identity: WorkloadIdentity) -> str:
    """Returns where the file is in the task's directory. Raises SetupError for a path outside of
    what is the task's."""
    if not identity.filepath:
        name = "nomad_token" if identity.is_default else f"nomad_{identity.name}.jwt"
        return f"secrets/{name}"
    path = os.path.normpath(identity.filepath).lstrip("/")
    if path.split("/")[0] in ("..", PRIVATE):
        raise SetupError(
            f'cannot write an identity to "{identity.filepath}": it leads out of the task\'s files'
        )
    return path
