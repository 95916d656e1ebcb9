"""The mirrors of a server: one bare repository for each source, with its locks."""

from __future__ import annotations

import asyncio
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path

from orchgit.errors import InvalidInputError, NotFoundError
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.quarantine import remove_leftovers
from orchgit.gitops.git.repository import Repository, TreeCache, init_bare
from orchgit.gitops.mirrors.rules import Wanted
from orchgit.model.source import SourceKind, is_source_name

_MARKER = "orchgit-source"
"""Name of a file in the repository that says which source the repository is for."""
_EXPECTED = "expected"


@dataclass(slots=True)
class Mirror:
    """One source's bare repository.

    `lock` is held while refs move or packs are replaced, `fetching` while objects come in from
    another server. `held` are objects known to be here with everything reachable from them.
    `synced` is what the refs were last made to show, or None while something of it is missing.
    `writes` counts pushes and fetches for maintenance.
    """

    name: str
    path: Path
    limits: GitLimits
    cache: TreeCache = field(default_factory=TreeCache)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    fetching: asyncio.Lock = field(default_factory=asyncio.Lock)
    held: set[str] = field(default_factory=set)
    synced: Wanted | None = None
    writes: int = 0

    def create(self) -> None:
        """Makes the repository, or takes it over from a process that died at any point."""
        init_bare(self.path)
        remove_leftovers(self.path)

    def become(self, identity: str, is_wanted: bool) -> None:
        """Makes the repository that of the source `identity`, and empties it if it was fetched for
        another source of the same name. The caller holds `lock`.

        `is_wanted`: the state names objects of the source, so a repository from before identities
        were written belongs to it.
        """
        marker = self.path / _MARKER
        known = marker.read_text(encoding="ascii") if marker.exists() else ""
        if known == identity:
            return
        if known != _EXPECTED and (known or not is_wanted):
            shutil.rmtree(self.path)
            self.create()
            self.cache = TreeCache()
            self.held.clear()
        marker.write_text(identity, encoding="ascii")

    def expect(self) -> None:
        """Marks the repository as that of the next source of its name, so that objects which come
        before the source does are kept. The caller holds `lock`."""
        (self.path / _MARKER).write_text(_EXPECTED, encoding="ascii")

    def open(self, quarantine: Path | None = None) -> Repository:
        """Opens the repository; with the objects of a push that is not accepted yet, if given."""
        return Repository(self.path, self.limits, self.cache, quarantine)


class MirrorStore:
    """All mirrors of a server, in one directory that only the server's user may enter."""

    def __init__(self, directory: Path, limits: GitLimits) -> None:
        self.directory = directory
        self._limits = limits
        self._mirrors: dict[str, Mirror] = {}
        self._making = threading.Lock()

    def get(self, source: str) -> Mirror:
        """Returns the mirror of a source; its repository is made, or taken over, at first use. Safe
        to call from any thread. Raises InvalidInputError for what cannot be a source's name."""
        with self._making:
            mirror = self._mirrors.get(source)
            if mirror is None:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                mirror = Mirror(source, self._path(source), self._limits)
                mirror.create()
                self._mirrors[source] = mirror
            return mirror

    def existing(self, source: str) -> Mirror | None:
        """Returns the mirror of a source if this server has one, else None."""
        return self.get(source) if (self._path(source) / "HEAD").exists() else None

    def served(self, source: str, kind: str | None) -> Mirror:
        """Returns the mirror of a source. Raises NotFoundError unless its kind is built in."""
        if kind != SourceKind.BUILTIN:
            raise NotFoundError(
                f"cannot find a git repository named {source!r} here: "
                "`orchgit source list` shows the built-in ones"
            )
        return self.get(source)

    def _path(self, source: str) -> Path:
        """Raises InvalidInputError for what cannot be a source's name: other servers send names."""
        if not is_source_name(source):
            raise InvalidInputError(f"cannot use {source[:80]!r} as the name of a repository")
        return self.directory / f"{source}.git"
