"""Objects of a push, or from another server, kept apart until they are accepted."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchgit.errors import InvalidInputError, TooLargeError
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.process import GitProcess, GitResult, last_words

_REF = re.compile(rb"(?:[0-9a-f]{40}|ref: refs/[^\n]+)\n")
_PREFIX = "tmp_objdir-incoming-"


@dataclass(frozen=True, slots=True)
class PackLimit:
    """What one pack may weigh; `name` is the limit's, `what` how the pack is called in errors."""

    what: str
    name: str
    max_bytes: int
    timeout_s: float


def push_limit(limits: GitLimits) -> PackLimit:
    return PackLimit("this push", "max_push_bytes", limits.max_push_bytes, limits.pack_timeout_s)


class Quarantine:
    """A directory for one pack. Its objects see the repository's; not the other way round."""

    def __init__(self, git: GitProcess, mirror: Path, limit: PackLimit | None = None) -> None:
        self._git = git
        self._limit = limit or push_limit(git.limits)
        self._mirror = mirror
        self._objects = mirror / "objects"
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._objects))

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "GIT_OBJECT_DIRECTORY": str(self.path),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._objects),
            "GIT_QUARANTINE_PATH": str(self.path),
        }

    async def receive(self, pack: AsyncIterator[bytes]) -> None:
        """Index the pack with every check git has. The pack is fsynced when this returns."""
        limit = self._limit
        size = f"--max-input-size={limit.max_bytes}"
        result = await self._run(["index-pack", "--stdin", "--fix-thin", "--strict", size], pack)
        if result.returncode == 0:
            return
        words = last_words(result.stderr)
        if "maximum allowed size" in words:
            raise TooLargeError(
                f"cannot receive {limit.what}: {limit.name} is {limit.max_bytes} bytes"
            )
        raise InvalidInputError(f"cannot receive {limit.what}: {words}")

    async def check_connected(self, commit_ids: Sequence[str]) -> None:
        """Every object the new refs lead to is here; a half push would break later reads."""
        result = await check_connected(self._git, self._mirror, commit_ids, self._environment)
        if result.returncode != 0:
            raise InvalidInputError(
                f"cannot receive {self._limit.what}: objects are missing "
                f"({last_words(result.stderr)})"
            )

    async def _run(self, args: Sequence[str], stdin: AsyncIterator[bytes] | bytes) -> GitResult:
        return await self._git.run(
            [f"--git-dir={self._mirror}", *args],
            timeout_s=self._limit.timeout_s,
            env=self._environment,
            stdin=stdin,
            max_file_bytes=self._limit.max_bytes,
        )

    def accept(self) -> None:
        """Move the objects into the repository, indexes last, so that no half pack is seen."""
        incoming = self.path / "pack"
        target = self._objects / "pack"
        target.mkdir(exist_ok=True)
        names = sorted(incoming.iterdir()) if incoming.is_dir() else []
        for file in sorted(names, key=lambda path: path.suffix == ".idx"):
            os.replace(file, target / file.name)
        _sync_directory(target)

    def discard(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


async def check_connected(
    git: GitProcess,
    mirror: Path,
    object_ids: Sequence[str],
    env: Mapping[str, str] | None = None,
) -> GitResult:
    """Walks from the objects to what the mirror's refs reach; fails where something is missing."""
    return await git.run(
        [f"--git-dir={mirror}", *["rev-list", "--objects", "--stdin", "--quiet", "--not", "--all"]],
        timeout_s=git.limits.pack_timeout_s,
        env=env,
        stdin="".join(f"{object_id}\n" for object_id in object_ids).encode(),
    )


def remove_leftovers(mirror: Path) -> None:
    """What a process that was killed left half received, and refs that a crash of the machine left
    empty: they are made anew from the state. Nobody else writes here now."""
    objects = mirror / "objects"
    for directory in objects.glob(f"{_PREFIX}*"):
        shutil.rmtree(directory, ignore_errors=True)
    for file in objects.glob("pack/tmp_*"):
        file.unlink(missing_ok=True)
    for file in (mirror / "refs").rglob("*"):
        if file.is_file() and not _REF.fullmatch(file.read_bytes()[:1024]):
            file.unlink()


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
