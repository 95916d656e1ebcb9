"""Taking over from the allocation that this one replaces: its sticky disk, on the same node."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from agent.hooks.base import SetupError
from agent.paths import AllocPaths
from orchgit.model.group import TaskGroup


async def take_over(group: TaskGroup, previous: AllocPaths, paths: AllocPaths) -> None:
    """Move `alloc/data` and each task's `local` here, where the group's disk is sticky."""
    if not group.ephemeral_disk.sticky or not previous.root.is_dir():
        return
    moves = [(previous.shared / "data", paths.shared / "data")]
    moves += [(previous.task(task.name).local, paths.task(task.name).local) for task in group.tasks]
    try:
        await asyncio.to_thread(move_all, moves)
    except OSError as error:
        raise SetupError(f"cannot take over the previous allocation's files: {error}") from None


def move_all(moves: list[tuple[Path, Path]]) -> None:
    """Replaces each second directory by the first, where the first is a directory."""
    for old, new in moves:
        if not old.is_dir() or old.is_symlink():
            continue
        if new.is_dir():
            shutil.rmtree(new)
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(old, new)
