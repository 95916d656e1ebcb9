"""What the routes need of gitops; the composition root passes the implementation in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from orchgit.metrics.values import Gauge, Histogram
from orchgit.model.author import Author
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.model.source_health import SourceCheck, SourceHealth, SyncResult
from orchgit.replication.proposal import RequestWrites
from orchgit.services.cluster.snapshots import Repositories
from orchgit.state.snapshot import Snapshot


class SourceReportPort(Protocol):
    """A source at one index, with what follows from the state and the leader's memory."""

    @property
    def source(self) -> Source: ...

    @property
    def health(self) -> SourceHealth: ...

    @property
    def check(self) -> SourceCheck: ...

    @property
    def modify_index(self) -> int:
        """The newest change of what the health follows from."""
        ...


class HeldChoice(NamedTuple):
    """Held versions that a request names: those of `jobs` (namespace, id), or `every` one."""

    jobs: Sequence[tuple[str, str]]
    every: bool


class RollbackPerson(NamedTuple):
    """Who goes back to an earlier commit and why; `delete` are jobs that may be deleted though they
    own volume claims, `expected_plan` is the hash of the plan that the person saw."""

    by: str
    email: str
    reason: str
    delete: Sequence[str]
    expected_plan: str
    dry_run: bool


class GitopsPort(Protocol):
    def check_source(self, source: Source) -> None:
        """Raises InvalidInputError for a URL, ref, path or secret's name that cannot be used.

        Raises NotAllowedError for one that the configuration does not allow. Reads the disk.
        """
        ...

    def is_declared(self, source: str) -> bool:
        """Returns whether this server's configuration has a source of that name."""
        ...

    async def rerun(
        self, source: str, jobs: Sequence[tuple[str, str]], by: str, writes: RequestWrites | None
    ) -> Any:
        """Creates these jobs (namespace, id) of the applied commit again; returns the rollout."""
        ...

    async def drift_patch(self, source: str) -> str:
        """Returns a patch that makes the files of the source's drifted jobs say what runs now.

        Raises NotFoundError if there is no such source.
        """
        ...

    async def retry(
        self, source: str, wanted: HeldChoice, by: str, writes: RequestWrites | None
    ) -> Any:
        """Applies held versions of the applied commit again; returns the rollout."""
        ...

    def wake(self, source: str, by: str, author: Author | None) -> None:
        """Looks for new commits of a source now; `by` and the token's `author` are who asks."""
        ...

    def report(self, snapshot: Snapshot, source: Source) -> SourceReportPort:
        """The source and its health as the snapshot has them. May decode many jobs."""
        ...

    def reports(self, snapshot: Snapshot) -> Sequence[SourceReportPort]:
        """The reports of all sources, by name."""
        ...

    def metrics(self, snapshot: Snapshot) -> Sequence[Gauge | Histogram]:
        """The metrics of the sources where this server leads, else none; in any thread."""
        ...

    async def adopt(self, source: str, by: str, writes: RequestWrites | None) -> Rollout | None:
        """Takes over jobs without a source that the applied commit has; returns the rollout."""
        ...

    async def sync(self, source: str, by: str, author: Author | None) -> SyncResult:
        """Looks for new commits of a source now; returns what that came to."""
        ...

    @property
    def backup(self) -> Repositories:
        """The repositories that this cluster hosts, to be saved and restored."""
        ...

    async def revert(
        self, rollout_id: str, person: RollbackPerson, writes: RequestWrites | None
    ) -> Any:
        """Starts a rollout that reverts another one; returns it, or with `dry_run` the plan."""
        ...

    async def rollback(
        self, source: str, commit: str, person: RollbackPerson, writes: RequestWrites | None
    ) -> Any:
        """Starts a rollout that takes the source back to an earlier commit; returns it, or with
        `dry_run` the plan."""
        ...

    async def approve(
        self, rollout_id: str, plan_hash: str, by: str, writes: RequestWrites | None
    ) -> Any:
        """Approves the plan of a rollout that waits; returns the rollout."""
        ...

    async def reject(
        self, rollout_id: str, reason: str, by: str, writes: RequestWrites | None
    ) -> Any:
        """Ends a rollout that waits; returns it."""
        ...

    async def override_window(
        self, source: str, reason: str, by: str, author: Author | None
    ) -> SyncResult:
        """Applies the source's newest commit outside its windows, as soon as its other gates are
        open; returns what trying so came to."""
        ...

    async def rollout_report(self, rollout: Rollout) -> Any:
        """Returns why jobs of the rollout failed, and where its services are."""
        ...

    async def plan_files(
        self,
        source: str,
        files: Sequence[tuple[str, bytes]],
        base_files: Sequence[tuple[str, bytes]] | None = None,
        fit: bool = False,
    ) -> Mapping[str, Any]:
        """Returns what applying these files as a commit of the source would do. With `fit` the
        scheduler takes the time to plan every job."""
        ...
