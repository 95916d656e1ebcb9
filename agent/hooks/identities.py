"""The task's identities: signed by the servers, given to it in its environment and as files."""

from __future__ import annotations

import os

from agent.hooks.base import SetupError, TaskSetup
from agent.hooks.files import write_inside
from agent.paths import PRIVATE
from orchgit.errors import OrchgitError, UnavailableError
from orchgit.model.workload_identity import WantedIdentity, WorkloadIdentity, identities_of

_IN_IMAGE, _ALONE = 0o644, 0o600
"""Modes of files. A task in an image may run as any of its users; the closed directory around its
files keeps the node's other users out."""


async def prepare(setup: TaskSetup) -> None:
    setup.identity_env = {}
    given = [each for each in identities_of(setup.task) if each.env or each.file]
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
