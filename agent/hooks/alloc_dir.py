"""The directories that an allocation's tasks share, and their removal."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from agent.hooks.base import SetupError
from agent.hooks.secrets_mount import unmount_below
from agent.paths import AllocPaths
from orchgit.errors import DriverError

_SHARED = {"data": 0o777, "logs": 0o777, "tmp": 0o1777}


def create(paths: AllocPaths) -> None:
    """Make them; those that exist stay as they are."""
    try:
        paths.shared.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name, mode in _SHARED.items():
            directory = paths.shared / name
            if not directory.is_dir():
                directory.mkdir(exist_ok=True)
                directory.chmod(mode)
    except OSError as error:
        raise SetupError(
            f"cannot make the allocation's directories: {error}", recoverable=True
        ) from None


async def remove(paths: AllocPaths) -> None:
    """Delete everything of the allocation; links are removed, never followed. Raises DriverError
    where something stays: what can be deleted is gone then, and a later try may end it."""
    await asyncio.to_thread(_remove, paths.root)


def _remove(root: Path) -> None:
    if kept := unmount_below(root):
        # What is mounted there may be somebody's data.
        raise _not_removed(root, f"{kept[0]} is mounted", "unmount it")
    failures: list[str] = []

    def note(_function: object, path: str, raised: tuple[object, BaseException, object]) -> None:
        error = raised[1]
        if not isinstance(error, FileNotFoundError):
            failures.append(f"{path}: {getattr(error, 'strerror', None) or error}")

    shutil.rmtree(root, onerror=note)
    if failures:
        raise _not_removed(root, failures[0], "delete it by hand")


def _not_removed(root: Path, reason: str, way_out: str) -> DriverError:
    return DriverError(
        f"cannot delete the files of allocation {root.name}: {reason}; "
        f"{way_out}, or wait for the next try",
        recoverable=True,
    )
