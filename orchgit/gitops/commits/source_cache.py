"""What this process caches of each source: parsed files, and the jobs of the last applied commit.

A cache is lost at a restart, which costs one look at every job of the source and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchgit.gitops.commits.last_applied import LastApplied
from orchgit.gitops.parsing.cache import ParseCache
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.discovery import Discoverer
from orchgit.gitops.parsing.disk_cache import DiskParseCache
from orchgit.gitops.parsing.port import JobParser
from orchgit.model.source import Source


@dataclass(frozen=True, slots=True)
class CommitJobs:
    """The jobs of one commit as its files define them, read with the settings of `source`."""

    commit_id: str
    source: Source
    jobs: Mapping[JobKey, DesiredJob]

    def is_applied(self, source: Source) -> bool:
        """Returns whether the commit is the applied one, and the settings with which its files are
        read are the same."""
        return self.commit_id == source.status.applied_commit and self.has_settings(source)

    def has_settings(self, source: Source) -> bool:
        """Returns whether the source's settings with which files are read are the same."""
        return _read_settings(self.source) == _read_settings(source)


def _read_settings(source: Source) -> tuple[object, ...]:
    return (
        source.namespace,
        source.region,
        source.paths,
        source.exclude,
        source.variables,
        source.var_files,
    )


@dataclass(slots=True)
class SourceCache:
    """The cache of one source. `last_applied` holds the jobs of `applied_commit` as they were
    registered; the state's own applied commit invalidates it. `commit_jobs` are all jobs of the
    applied commit, or of one before it."""

    discoverer: Discoverer
    applied_commit: str = ""
    last_applied: Mapping[JobKey, LastApplied] = field(default_factory=dict)
    commit_jobs: CommitJobs | None = None

    def last_applied_for(self, source: Source) -> Mapping[JobKey, LastApplied] | None:
        """Returns the cached jobs, or None where the state names another commit as applied."""
        same = self.applied_commit and self.applied_commit == source.status.applied_commit
        return self.last_applied if same else None


class SourceCaches:
    """The caches of all sources, by the source's name. All share one parser and one disk cache.
    `region` is the cluster's."""

    def __init__(self, parser: JobParser, disk: DiskParseCache, region: str) -> None:
        self._parser = parser
        self._disk = disk
        self._region = region
        self._caches: dict[str, SourceCache] = {}

    def of(self, source: str) -> SourceCache:
        """Returns the source's cache; an empty one at first use."""
        if source not in self._caches:
            discoverer = Discoverer(self._parser, ParseCache(self._disk), self._region)
            self._caches[source] = SourceCache(discoverer)
        return self._caches[source]

    def forget(self, source: str) -> None:
        """Drops the cache of a source that was removed."""
        self._caches.pop(source, None)
