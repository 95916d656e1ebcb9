"""The task's own directories: `local`, `secrets`, `tmp`, and `private` of the agent.

Who may read the secrets depends on what the task sees of the node. A task in an image gets the
directory mounted, and may run as any user of that image: the directory is open, and what keeps the
node's other users out is the closed one around it. Any other task has it as its user's alone: one
in a chroot has the task's directory as its root, which its user must be able to pass.
"""

from __future__ import annotations

import os

from agent.hooks.base import SetupError, TaskSetup

_BASE_MODES = {"none": 0o1777, "chroot": 0o1777, "image": 0o700}
"""A task may write below its root, as in Nomad; it may not replace what belongs to the agent."""
_MODES = {"local": 0o777, "tmp": 0o1777, "private": 0o700}
_ROOT_MODES = {"var": 0o777, "run": 0o777}
"""What programs expect of a root file system, for a task that has none of an image."""


async def prepare(setup: TaskSetup) -> None:
    base = setup.paths.task_dir
    in_image = setup.isolation == "image"
    try:
        if not base.is_dir():
            base.mkdir(parents=True, exist_ok=True)
            base.chmod(_BASE_MODES[setup.isolation])
        for name, mode in _MODES.items():
            _make(str(base / name), mode)
        for name, mode in _ROOT_MODES.items() if setup.isolation == "chroot" else ():
            _make(str(base / name), mode)
        secrets_mode = 0o777 if in_image else 0o700
        _make(str(setup.paths.secrets), secrets_mode)
        setup.secrets.mount(setup.paths.secrets, setup.task.resources.secrets_mb, secrets_mode)
        if not in_image and (user := setup.user()) is not None:
            _give(setup, user.uid, user.gid)
    except OSError as error:
        raise SetupError(f"cannot make the directories of the task: {error}") from None


def _give(setup: TaskSetup, uid: int, gid: int) -> None:
    """The secrets belong to the task's user."""
    try:
        os.chown(setup.paths.secrets, uid, gid, follow_symlinks=False)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        raise SetupError(
            f'cannot run as "{setup.task.user}": the agent does not run as root, so its tasks run '
            "as its own user"
        ) from None


def _make(path: str, mode: int) -> None:
    """Make the directory unless it is there: then it is the task's, and stays as it is."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    os.chmod(path, mode)
