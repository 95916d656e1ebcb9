"""Watches a local repository, so that a change of its refs wakes its source at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from orchgit.errors import SourceError

_log = structlog.get_logger(component="gitops")

_RETRY_S = 5.0


def git_directory(path: Path) -> Path:
    """Returns the git directory of a work tree or bare repository, following a worktree's `.git`
    file. Raises SourceError for a path that is no repository."""
    dot_git = path / ".git"
    if dot_git.is_dir():
        return dot_git
    if dot_git.is_file():
        target = dot_git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        worktree = (path / target).resolve()
        common = worktree / "commondir"
        return (worktree / common.read_text().strip()).resolve() if common.is_file() else worktree
    if (path / "HEAD").is_file() and (path / "objects").is_dir():
        return path
    raise SourceError(f"cannot watch {path}: it is no git repository")


def is_ref_change(git_dir: Path, changed: str) -> bool:
    """Returns whether a changed file can mean that a ref moved; locks and objects cannot."""
    try:
        relative = Path(changed).relative_to(git_dir).as_posix()
    except ValueError:
        return False
    if relative.endswith(".lock"):
        return False
    return relative in ("HEAD", "packed-refs") or relative.startswith("refs/")


async def watch_refs(path: Path, wake: Callable[[], None]) -> None:
    """Calls `wake` after each change of the repository's refs, until cancelled."""
    from watchfiles import Change, awatch  # heavy, and needed by local sources only

    git_dir = git_directory(path.resolve())

    def concerns(change: Change, changed: str) -> bool:
        return is_ref_change(git_dir, changed)

    _log.info("watching a local repository", path=str(path))
    async for _ in awatch(
        git_dir, watch_filter=concerns, debounce=50, step=20, stop_event=None, recursive=True
    ):
        wake()
