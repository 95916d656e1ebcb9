"""Gives a task its tokens: variables of its environment, and files that only its user may read."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agent.hooks.base import SetupError, TaskSetup
from agent.hooks.files import write_inside
from agent.identities.task_api import SOCKET
from agent.paths import PRIVATE
from orchgit.errors import OrchgitError, UnavailableError
from orchgit.model.workload_identity import WorkloadIdentity, identities_of

_IN_IMAGE, _ALONE = 0o644, 0o600
"""Modes of files. A task in an image may run as any of its users; the closed directory around its
files keeps the node's other users out."""


async def place(setup: TaskSetup, given: Sequence[WorkloadIdentity]) -> None:
    """Puts new tokens of these identities into the setup's environment and the task's files.

    Raises SetupError, which is recoverable while no server answers.
    """
    if not given:
        return
    try:
        tokens = await setup.identities.renew([each.name for each in given])
    except OrchgitError as error:
        raise SetupError(str(error), recoverable=isinstance(error, UnavailableError)) from None
    for identity, token in zip(given, tokens, strict=True):
        _set_variables(setup, identity, token)
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


def recall(setup: TaskSetup) -> None:
    """Sets the variables of a task that an agent before this one started."""
    for identity in identities_of(setup.task):
        token = setup.identities.current(identity.name)
        if token is not None:
            _set_variables(setup, identity, token)


def _set_variables(setup: TaskSetup, identity: WorkloadIdentity, token: str) -> None:
    if not identity.env:
        return
    name = "NOMAD_TOKEN" if identity.is_default else f"NOMAD_TOKEN_{identity.name}"
    setup.results.env[name] = token
    if identity.is_default:
        setup.results.env["NOMAD_UNIX_ADDR"] = f"unix:{setup.secrets_dir}/{SOCKET}"


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
