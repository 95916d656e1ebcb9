"""Gives the API what it needs of gitops, in the form its routes answer with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchgit.api.gitops_port import HeldChoice, RollbackPerson
from orchgit.errors import InvalidInputError
from orchgit.gitops.commits.preview import Preview
from orchgit.gitops.commits.rerun import RetryRequest
from orchgit.gitops.commits.rollback import RollbackRequest
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.globs import compile_globs
from orchgit.gitops.git.refs import check_followed_ref
from orchgit.gitops.gitops import Gitops
from orchgit.gitops.mirrors.backup import RepositoryBackup
from orchgit.gitops.parsing.regions import check_region
from orchgit.gitops.rollouts.report import RolloutReport
from orchgit.gitops.sources.access import check_access
from orchgit.gitops.sources.status_reader import SourceReport
from orchgit.gitops.sources.wakeups import Asker
from orchgit.metrics.values import Gauge, Histogram
from orchgit.model.author import Author
from orchgit.model.rollout import JobAction, Rollout
from orchgit.model.source import Source
from orchgit.model.source_health import SyncResult
from orchgit.replication.proposal import RequestWrites
from orchgit.server.ports.source_metrics import source_metrics
from orchgit.state.snapshot import Snapshot

_SHOWN_ACTIONS = (JobAction.CREATE, JobAction.UPDATE, JobAction.DELETE)


class ApiGitops:
    """The `GitopsPort` of the API."""

    def __init__(self, gitops: Gitops, config: GitopsConfig) -> None:
        self._gitops = gitops
        self._config = config

    @property
    def backup(self) -> RepositoryBackup:
        return self._gitops.backup

    def check_source(self, source: Source) -> None:
        check_followed_ref(source.ref, source.tags)
        check_region(source, self._config.region)
        check_access(self._config, source, self._gitops.synchronizer.own_name)
        compile_globs((*source.paths, *source.exclude))
        self._check_named("credential", source.credential, self._config.credentials)
        self._check_named("webhook secret", source.webhook_secret, self._config.webhook_secrets)

    def _check_named(self, kind: str, name: str, known: Mapping[str, object]) -> None:
        if name and name not in known:
            raise InvalidInputError(
                f'cannot use {kind} "{name}": the configuration of '
                f"{self._gitops.synchronizer.own_name}, which leads, has none of that name; "
                "every server needs it"
            )

    def is_declared(self, source: str) -> bool:
        return any(each.name == source for each in self._config.sources)

    async def rerun(
        self, source: str, jobs: Sequence[tuple[str, str]], by: str, writes: RequestWrites | None
    ) -> Rollout:
        return await self._gitops.rerun(source, jobs, by, writes)

    async def drift_patch(self, source: str) -> str:
        return await self._gitops.drift_patch(source)

    async def retry(
        self, source: str, wanted: HeldChoice, by: str, writes: RequestWrites | None
    ) -> Rollout:
        request = RetryRequest(wanted.jobs, wanted.every, by)
        return await self._gitops.retry(source, request, writes)

    def wake(self, source: str, by: str, author: Author | None) -> None:
        self._gitops.wake(source, force=True, asker=Asker(by, author))

    def report(self, snapshot: Snapshot, source: Source) -> SourceReport:
        return self._gitops.statuses.report(snapshot, source)

    def reports(self, snapshot: Snapshot) -> list[SourceReport]:
        return self._gitops.statuses.reports(snapshot)

    def metrics(self, snapshot: Snapshot) -> list[Gauge | Histogram]:
        if not self._gitops.leads:
            return []
        reports = self._gitops.statuses.reports(snapshot)
        timings = self._gitops.tracker.timings
        timings.keep({report.source.name for report in reports})
        now_ns = self._gitops.now_ns()
        return list(source_metrics(snapshot, reports, timings.by_source, now_ns))

    async def adopt(self, source: str, by: str, writes: RequestWrites | None) -> Rollout | None:
        return await self._gitops.adopt(source, by, writes)

    async def sync(self, source: str, by: str, author: Author | None) -> SyncResult:
        return await self._gitops.sync(source, asker=Asker(by, author))

    async def revert(
        self, rollout_id: str, person: RollbackPerson, writes: RequestWrites | None
    ) -> Rollout | dict[str, Any]:
        request = _request_of(person)
        if person.dry_run:
            return _shown(await self._gitops.reverter().preview_revert(rollout_id, request))
        return await self._gitops.revert(rollout_id, request, writes)

    async def rollback(
        self, source: str, commit: str, person: RollbackPerson, writes: RequestWrites | None
    ) -> Rollout | dict[str, Any]:
        request = _request_of(person)
        if person.dry_run:
            return _shown(await self._gitops.reverter().preview_rollback(source, commit, request))
        return await self._gitops.rollback(source, commit, request, writes)

    async def approve(
        self, rollout_id: str, plan_hash: str, by: str, writes: RequestWrites | None
    ) -> Rollout:
        return await self._gitops.approve(rollout_id, plan_hash, by, writes)

    async def reject(
        self, rollout_id: str, reason: str, by: str, writes: RequestWrites | None
    ) -> Rollout:
        return await self._gitops.reject(rollout_id, reason, by, writes)

    async def override_window(
        self, source: str, reason: str, by: str, author: Author | None
    ) -> SyncResult:
        return await self._gitops.override_window(source, reason, by, author)

    async def rollout_report(self, rollout: Rollout) -> RolloutReport:
        return await self._gitops.reporter.report(rollout)

    async def plan_files(
        self,
        source: str,
        files: Sequence[tuple[str, bytes]],
        base_files: Sequence[tuple[str, bytes]] | None = None,
        fit: bool = False,
    ) -> Mapping[str, Any]:
        base = None if base_files is None else dict(base_files)
        preview = await self._gitops.preview_files(source, dict(files), base, fit)
        return _shown(preview)


def _request_of(person: RollbackPerson) -> RollbackRequest:
    return RollbackRequest(
        by=person.by,
        email=person.email,
        reason=person.reason,
        delete=frozenset(person.delete),
        expected_plan=person.expected_plan,
    )


def _shown(preview: Preview) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(preview)
    for job in value["Jobs"]:
        job["Annotations"] = {"DesiredTGUpdates": job["DesiredTGUpdates"]}
        job["Warnings"] = job["Unplaced"]
    found = Counter(job["Action"] for job in value["Jobs"])
    counts = {action.title(): found[action] for action in _SHOWN_ACTIONS}
    value["Summary"] = {**counts, "Unchanged": preview.unchanged}
    return value
