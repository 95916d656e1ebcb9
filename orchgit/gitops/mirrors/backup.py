"""The built-in repositories as packs of a cluster snapshot (`orchgit operator snapshot save`).

Their refs are in the state, their objects are not: a cluster restored from the state alone would
know commits that it cannot show, compare or revert to.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path

from orchgit.errors import UnavailableError
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.git.quarantine import PackLimit, Quarantine
from orchgit.gitops.mirrors.mirror import Mirror, MirrorStore
from orchgit.gitops.mirrors.packs import MAX_IDS
from orchgit.gitops.mirrors.quorum import ObjectQuorum
from orchgit.gitops.mirrors.rules import wanted_of
from orchgit.gitops.mirrors.synchronizer import MirrorSynchronizer
from orchgit.model.source import SourceKind
from orchgit.state.snapshot import StateReads

_PACK_OBJECTS = ["pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q"]
_READ_BYTES = 256 << 10


class RepositoryBackup:
    """Implements `Repositories` of `orchgit.services.cluster.snapshots`."""

    def __init__(
        self,
        mirrors: MirrorStore,
        git: GitProcess,
        synchronizer: MirrorSynchronizer,
        quorum: ObjectQuorum,
    ) -> None:
        self._mirrors = mirrors
        self._git = git
        self._synchronizer = synchronizer
        self._quorum = quorum

    def wanted(self, state: StateReads) -> dict[str, frozenset[str]]:
        """Returns the objects to save by repository: what its refs point at, and the commits that a
        revert may go back to."""
        found_sources = state.sources.all()
        names = {one.repository_name for one in found_sources if one.kind == SourceKind.BUILTIN}
        names.update(state.git_refs.repositories())
        found = {name: wanted_of(state, name).objects for name in sorted(names)}
        return {name: objects for name, objects in found.items() if objects}

    async def pack(
        self, wanted: Mapping[str, Collection[str]], directory: Path
    ) -> tuple[dict[str, Path], int]:
        """Writes one pack for each repository into `directory`. Returns the packs' paths by
        repository, and how many of the wanted objects no server has. Raises UnavailableError while
        a server that may have some is out of reach."""
        directory.mkdir()
        packs: dict[str, Path] = {}
        lost = 0
        for name, objects in wanted.items():
            mirror = await self._caught_up(name)
            missing = await self._synchronizer.sync_refs(mirror)
            here = sorted(set(objects) - missing)
            lost += len(objects) - len(here)
            if here:
                packs[name] = directory / f"{name}.pack"
                await self._write(mirror, here, packs[name])
        return packs, lost

    async def _caught_up(self, name: str) -> Mirror:
        try:
            await self._synchronizer.wait_until_current(name)
        except UnavailableError as error:
            raise UnavailableError(
                f"cannot save the repositories: {error}. Without them (`-no-git`) the state can be "
                "saved now"
            ) from error
        return await asyncio.to_thread(self._mirrors.get, name)

    async def _write(self, mirror: Mirror, objects: list[str], path: Path) -> None:
        chunks = self._git.stream(
            [f"--git-dir={mirror.path}", "-c", "pack.threads=1", *_PACK_OBJECTS],
            timeout_s=self._git.limits.mirror_timeout_s,
            stdin="".join(f"{each}\n" for each in objects).encode(),
        )
        with path.open("wb") as file:
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    await asyncio.to_thread(file.write, chunk)

    async def take(self, wanted: Mapping[str, Collection[str]], packs: Mapping[str, Path]) -> None:
        """Takes the objects of a snapshot's packs in, each checked like those of a push.

        Returns when a majority of the servers has them. The others fetch them when the restored
        state names them; until then no ref shows them.
        """
        for name, path in packs.items():
            mirror = await asyncio.to_thread(self._mirrors.get, name)
            found = await self._take(mirror, wanted.get(name, ()), path)
            for first in range(0, len(found), MAX_IDS):
                await self._quorum.hold(name, found[first : first + MAX_IDS])

    async def _take(self, mirror: Mirror, wanted: Collection[str], path: Path) -> list[str]:
        limits = self._git.limits
        limit = PackLimit(
            f"the git objects of {mirror.name!r} in the snapshot",
            "max_mirror_bytes",
            limits.max_mirror_bytes,
            limits.mirror_timeout_s,
        )
        async with mirror.fetching:
            quarantine = Quarantine(self._git, mirror.path, limit)
            try:
                await quarantine.receive(_content(path))
                repository = mirror.open(quarantine.path)
                found = sorted(each for each in wanted if repository.has_object(each))
                await quarantine.check_connected(found)
                async with mirror.lock:
                    quarantine.accept()
            finally:
                await asyncio.to_thread(quarantine.discard)
        mirror.held.update(found)
        return found


async def _content(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while data := await asyncio.to_thread(file.read, _READ_BYTES):
            yield data
