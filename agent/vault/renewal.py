"""Renews the token of a running task, and does what `change_mode` says of a new token."""

from __future__ import annotations

import structlog

from agent.hooks.base import TaskSetup
from agent.hooks.vault import Lease, configured_vault, logged_in, place, read_lease, text_of
from agent.identities.renewal import RunningTask
from agent.tasks import task_state
from agent.tasks.task_state import TaskEventType
from agent.vault.tokens import VaultToken
from orchgit.clock import SECOND_NS
from orchgit.errors import NotAllowedError, OrchgitError

_log = structlog.get_logger(component="agent")

_RETRY_S = 5.0


async def keep_token(task: RunningTask) -> None:
    """Renews the running task's token when half of its lease is over, whoever got it: an attempt or
    an agent before this one. When Vault renews no longer, the task gets a new one, and what
    `change_mode` says is done."""
    while True:
        setup = task.setup()
        lease = read_lease(setup)
        if setup.vault is None or lease is None or not lease.lease_s:
            return
        half_s = lease.lease_s / 2
        due_s = (lease.expires_ns - setup.clock.now_ns()) / SECOND_NS - half_s
        if due_s > 0:
            # A clock that was put back must not make the token's time longer.
            await setup.clock.sleep(min(due_s, half_s))
        try:
            token = await _renewed(setup, lease)
            place(setup, token)
        except OrchgitError as error:
            _log.warning("cannot renew a token of Vault; trying again", error=str(error))
            await setup.clock.sleep(min(_RETRY_S, half_s))
            continue
        if token.token == lease.token:
            continue
        block, reason = setup.task.vault or {}, "Vault token was renewed"
        if block.get("ChangeMode") == "restart":
            now_ns = setup.clock.now_ns()
            task.restart(task_state.event(TaskEventType.RESTART_REQUESTED, now_ns, reason))
        elif block.get("ChangeMode") == "signal":
            try:
                await task.signal(str(block.get("ChangeSignal") or ""), reason)
            except OrchgitError as error:
                _log.warning("cannot tell a task of its new token of Vault", error=str(error))


async def _renewed(setup: TaskSetup, lease: Lease) -> VaultToken:
    if lease.renewable:
        try:
            vault = configured_vault(setup)
            return await vault.renew(lease.token, text_of(setup.task.vault or {}, "Namespace"))
        except NotAllowedError:
            pass  # its longest time is over, or somebody revoked it
    return await logged_in(setup)
