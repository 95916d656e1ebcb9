"""Objects of a push, kept apart until the push is accepted."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from orchgit.errors import InvalidInputError, TooLargeError
from orchgit.gitops.git_process import GitProcess, GitResult, last_words


class Quarantine:
    """A directory for one push. Its objects see the repository's; not the other way round."""

    def __init__(self, git: GitProcess, mirror: Path) -> None:
        self._git = git
        self._mirror = mirror
        self._objects = mirror / "objects"
        self.path = Path(tempfile.mkdtemp(prefix="tmp_objdir-incoming-", dir=self._objects))

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "GIT_OBJECT_DIRECTORY": str(self.path),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._objects),
            "GIT_QUARANTINE_PATH": str(self.path),
        }

    async def receive(self, pack: AsyncIterator[bytes]) -> None:
        """Index the pack with every check git has. The pack is fsynced when this returns."""
        limit = self._git.limits.max_push_bytes
        result = await self._run(
            ["index-pack", "--stdin", "--fix-thin", "--strict", f"--max-input-size={limit}"],
            pack,
        )
        if result.returncode == 0:
            return
        words = last_words(result.stderr)
        if "maximum allowed size" in words:
            raise TooLargeError(f"cannot receive this push: max_push_bytes is {limit} bytes")
        raise InvalidInputError(f"cannot receive this push: {words}")

    async def check_connected(self, commit_ids: Sequence[str]) -> None:
        """Every object the new refs lead to is here; a half push would break later reads."""
        wanted = "".join(f"{commit_id}\n" for commit_id in commit_ids).encode()
        args = ["rev-list", "--objects", "--stdin", "--quiet", "--not", "--all"]
        result = await self._run(args, wanted)
        if result.returncode != 0:
            raise InvalidInputError(
                f"cannot receive this push: objects are missing ({last_words(result.stderr)})"
            )

    async def _run(self, args: Sequence[str], stdin: AsyncIterator[bytes] | bytes) -> GitResult:
        return await self._git.run(
            [f"--git-dir={self._mirror}", *args],
            timeout_s=self._git.limits.pack_timeout_s,
            env=self._environment,
            stdin=stdin,
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


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
