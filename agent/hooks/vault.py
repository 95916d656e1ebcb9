"""The task's token of Vault: in its environment, and in a file that only its user may read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent.hooks.base import SetupError, TaskSetup
from agent.hooks.files import write_inside
from agent.paths import PRIVATE
from agent.templates.cluster_reads import VaultAccess
from agent.vault.tokens import Vault, VaultToken
from orchgit.errors import NotAllowedError, NotFoundError, OrchgitError
from orchgit.model.base import NS_PER_S
from orchgit.model.task import Task

_FILE = "secrets/vault_token"
_OWN_FILE = f"{PRIVATE}/vault_token.json"
_IN_IMAGE, _ALONE = 0o644, 0o600


class Lease(msgspec.Struct):
    """What the agent must know of a token after a restart."""

    token: str
    lease_s: int
    renewable: bool
    expires_ns: int
    """Unix time; 0: never."""


async def prepare(setup: TaskSetup) -> None:
    """Logs the task in, where its job has a `vault` block. A token of an earlier attempt that is
    still good is used again."""
    if setup.task.vault is None:
        return
    known = read_lease(setup)
    if known is not None and not 0 < known.expires_ns <= setup.clock.now_ns():
        _hand_out(setup, known.token)
    else:
        place(setup, await logged_in(setup))


def recall(setup: TaskSetup) -> None:
    """Sets the variables of a task that an agent before this one started."""
    lease = read_lease(setup) if setup.task.vault is not None else None
    if lease is not None:
        _set_variables(setup, lease.token)


async def logged_in(setup: TaskSetup) -> VaultToken:
    """Returns a new token. Raises SetupError, recoverable while servers or Vault do not answer."""
    block = setup.task.vault or {}
    vault = configured_vault(setup)
    name = f"vault_{text_of(block, 'Cluster') or 'default'}"
    try:
        identity = await setup.identities.token(name)
    except NotFoundError:
        raise SetupError(
            f'cannot log in at Vault: the task has no identity "{name}"; add identity {{ name = '
            f'"{name}" aud = ["vault.io"] }} to it'
        ) from None
    except OrchgitError as error:
        raise SetupError(str(error), recoverable=True) from None
    try:
        return await vault.log_in(identity, text_of(block, "Role"), text_of(block, "Namespace"))
    except OrchgitError as error:
        refused = isinstance(error, NotAllowedError)
        raise SetupError(str(error), recoverable=not refused) from None


def configured_vault(setup: TaskSetup) -> Vault:
    """Raises SetupError on a node without one."""
    if setup.vault is None:
        raise SetupError("cannot log in at Vault: this node's configuration has no vault block")
    return setup.vault


def place(setup: TaskSetup, token: VaultToken) -> None:
    """Puts the token into the setup's environment and the task's files."""
    known = read_lease(setup)
    ends_ns = setup.clock.now_ns() + token.lease_s * NS_PER_S if token.lease_s else 0
    lease = Lease(token.token, token.lease_s, token.renewable, ends_ns)
    write_inside(setup.paths.task_dir, _OWN_FILE, msgspec.json.encode(lease), _ALONE)
    _hand_out(setup, token.token)
    if known is not None and known.token != token.token:
        setup.task_templates.read_again()


def _hand_out(setup: TaskSetup, token: str) -> None:
    block = setup.task.vault or {}
    if not block.get("DisableFile"):
        user = None if setup.isolation == "image" else setup.user()
        write_inside(
            setup.paths.task_dir,
            _FILE,
            token.encode(),
            _IN_IMAGE if setup.isolation == "image" else _ALONE,
            user.uid if user is not None else None,
            user.gid if user is not None else None,
        )
    _set_variables(setup, token)


def _set_variables(setup: TaskSetup, token: str) -> None:
    block = setup.task.vault or {}
    if block.get("Env", True):
        setup.results.env["VAULT_TOKEN"] = token
        if namespace := text_of(block, "Namespace"):
            setup.results.env["VAULT_NAMESPACE"] = namespace


def read_lease(setup: TaskSetup) -> Lease | None:
    """Returns what was placed last; None if nothing was."""
    return _lease_in(setup.paths.task_dir)


def vault_access(task: Task, task_dir: Path) -> VaultAccess | None:
    """Returns what the task's templates read Vault with; None without a `vault` block or a
    token."""
    lease = _lease_in(task_dir) if task.vault is not None else None
    if lease is None:
        return None
    return VaultAccess(lease.token, text_of(task.vault or {}, "Namespace"))


def _lease_in(task_dir: Path) -> Lease | None:
    try:
        return msgspec.json.decode(Path(task_dir, _OWN_FILE).read_bytes(), type=Lease)
    except (OSError, msgspec.MsgspecError):
        return None


def text_of(block: Mapping[str, object], name: str) -> str:
    """A value of a `vault` block; "" where it is not set."""
    return str(block.get(name) or "")
