"""Where the mirrors lie, and one lock for each: who moves refs holds it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from orchgit.errors import NotFoundError
from orchgit.gitops.limits import GitLimits
from orchgit.gitops.repo import Repository, TreeCache, init_bare
from orchgit.model.source import SourceKind


@dataclass(slots=True)
class Mirror:
    """One source's bare repository."""

    name: str
    path: Path
    limits: GitLimits
    cache: TreeCache = field(default_factory=TreeCache)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    writes: int = 0

    def create(self) -> None:
        init_bare(self.path)

    def open(self, quarantine: Path | None = None) -> Repository:
        return Repository(self.path, self.limits, self.cache, quarantine)


class Mirrors:
    """All mirrors of a server, in one directory that only this user may enter."""

    def __init__(self, directory: Path, limits: GitLimits) -> None:
        self.directory = directory
        self._limits = limits
        self._mirrors: dict[str, Mirror] = {}

    def get(self, source: str) -> Mirror:
        """The mirror of a source; its repository is made at first use."""
        mirror = self._mirrors.get(source)
        if mirror is None:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            mirror = Mirror(source, self.directory / f"{source}.git", self._limits)
            mirror.create()
            self._mirrors[source] = mirror
        return mirror

    def served(self, source: str, kind: str | None) -> Mirror:
        """The mirror of a source whose repository this server is the home of."""
        if kind != SourceKind.BUILTIN:
            raise NotFoundError(
                f"cannot find a git repository named {source!r} here: "
                "`orchgit source list` shows the built-in ones"
            )
        return self.get(source)
