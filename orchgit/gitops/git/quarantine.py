"""Objects of a push, or of a pack from another server, kept apart until they are accepted."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchgit.errors import InvalidInputError, TooLargeError
from orchgit.gitops.git.process import GitProcess, GitResult, last_words

_REF = re.compile(rb"(?:[0-9a-f]{40}|ref: refs/[^\n]+)\n")
_PREFIX = "tmp_objdir-incoming-"


@dataclass(frozen=True, slots=True)
class PackLimit:
    """How large one pack may be. Errors call the pack `what`, and the limit `name`."""

    what: str
    name: str
    max_bytes: int
    timeout_s: float


class Quarantine:
    """An object directory for one pack, that of a push unless `limit` says otherwise.

    git sees the repository's objects from here, but not these from the repository.
    """

    def __init__(self, git: GitProcess, mirror: Path, limit: PackLimit | None = None) -> None:
        self._git = git
        limits = git.limits
        self._limit = limit or PackLimit(
            "this push", "max_push_bytes", limits.max_push_bytes, limits.pack_timeout_s
        )
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
        """Indexes the pack with every check that git has; it is on disk when this returns.

        Raises TooLargeError for a pack above the limit, and InvalidInputError for a bad one.
        """
        limit = self._limit
        size = f"--max-input-size={limit.max_bytes}"
        result = await self._git.run(
            [
                f"--git-dir={self._mirror}",
                *("index-pack", "--stdin", "--fix-thin", "--strict", size),
            ],
            timeout_s=limit.timeout_s,
            env=self._environment,
            stdin=pack,
            max_file_bytes=limit.max_bytes,
        )
        if result.returncode == 0:
            return
        words = last_words(result.stderr)
        if "maximum allowed size" in words:
            raise TooLargeError(
                f"cannot receive {limit.what}: {limit.name} is {limit.max_bytes} bytes"
            )
        raise InvalidInputError(f"cannot receive {limit.what}: {words}")

    async def check_connected(self, commit_ids: Sequence[str]) -> None:
        """Raises InvalidInputError unless every object reachable from the commits is here."""
        result = await check_connected(self._git, self._mirror, commit_ids, self._environment)
        if result.returncode != 0:
            raise InvalidInputError(
                f"cannot receive {self._limit.what}: objects are missing "
                f"({last_words(result.stderr)})"
            )

    def accept(self) -> None:
        """Moves the objects into the repository, indexes last, so that no reader sees half a
        pack."""
        incoming = self.path / "pack"
        target = self._objects / "pack"
        target.mkdir(exist_ok=True)
        names = sorted(incoming.iterdir()) if incoming.is_dir() else []
        for file in sorted(names, key=lambda path: path.suffix == ".idx"):
            os.replace(file, target / file.name)
        handle = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def discard(self) -> None:
        """Deletes the directory with what was not accepted."""
        shutil.rmtree(self.path, ignore_errors=True)


async def check_connected(
    git: GitProcess,
    mirror: Path,
    object_ids: Sequence[str],
    env: Mapping[str, str] | None = None,
) -> GitResult:
    """Walks from the objects to what the mirror's refs reach. git's exit status is not 0 if an
    object is missing."""
    return await git.run(
        [f"--git-dir={mirror}", "rev-list", "--objects", "--stdin", "--quiet", "--not", "--all"],
        timeout_s=git.limits.pack_timeout_s,
        env=env,
        stdin="".join(f"{object_id}\n" for object_id in object_ids).encode(),
    )


def remove_leftovers(mirror: Path) -> None:
    """Deletes what a killed process left half received, and refs that a crash of the machine left
    empty; they are written again from the state. Nobody else may write to the mirror now."""
    objects = mirror / "objects"
    for directory in objects.glob(f"{_PREFIX}*"):
        shutil.rmtree(directory, ignore_errors=True)
    for file in objects.glob("pack/tmp_*"):
        file.unlink(missing_ok=True)
    for file in (mirror / "refs").rglob("*"):
        if file.is_file() and not _REF.fullmatch(file.read_bytes()[:1024]):
            file.unlink()
