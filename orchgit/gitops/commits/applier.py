"""Reads a commit, plans it against the state, and proposes the log entry that carries it out."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_rights

from msgspec.structs import replace

from orchgit.acl.rights import MANAGEMENT
from orchgit.errors import ConflictError, JobFileError, NotFoundError, OrchgitError
from orchgit.gitops.commits.deletions import delete_trailers
from orchgit.gitops.commits.last_applied import last_applied_jobs
from orchgit.gitops.commits.log_entry import (
    carried_jobs,
    deletions_of,
    next_stage_of,
    plan_hash,
    records_of,
    refused_rollout,
    rollout_of,
    upserts_of,
)
from orchgit.gitops.commits.plan import CommitPlan, Trigger, plan_between, plan_commit
from orchgit.gitops.commits.plan_request import NO_REQUEST, PlanRequest
from orchgit.gitops.commits.source_cache import CommitJobs, SourceCache
from orchgit.gitops.commits.source_rights import rights_of
from orchgit.gitops.gates.permit import FREE, Permit
from orchgit.gitops.gates.policy import narrowed_prune
from orchgit.gitops.git.repository import CommitInfo, Repository
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.discovery import Discovery
from orchgit.gitops.parsing.file_functions import read_file
from orchgit.gitops.parsing.trees import CommitTree, FileTree
from orchgit.gitops.rollouts.waiting import unapplied_jobs
from orchgit.model.repository_policy import RepositoryPolicy
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.replication.commands.gitops import RefMove
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.rollouts import RecordsChange, apply_rollout, record_rollout
from orchgit.services.gitops.sources import move_refs

MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ReadCommit:
    """A commit that was read whole.

    `may_delete` names the jobs that `Orchgit-Delete:` lines of its messages give leave to delete.
    `applied_jobs` are the applied commit's jobs, `applied_policy` what its `orchgit.hcl` says.
    `source` has the settings that the files were read with.
    """

    info: CommitInfo
    tree: FileTree
    discovery: Discovery
    may_delete: frozenset[str] = frozenset()
    applied_jobs: Mapping[JobKey, DesiredJob] = field(default_factory=dict)
    source: Source | None = None
    applied_policy: RepositoryPolicy = field(default_factory=RepositoryPolicy)

    def refuse_problems(self, plan: CommitPlan) -> None:
        """Raises JobFileError with every problem of the commit's plan, if it has any."""
        if plan.problems:
            raise JobFileError(
                f"cannot apply commit {self.info.commit.id[:12]}:\n" + "\n".join(plan.problems),
                plan.problems,
            )


def applied_jobs(
    repository: Repository, source: Source, cache: SourceCache
) -> Mapping[JobKey, DesiredJob]:
    """Returns the jobs of the applied commit, from the cache if it has them. None are known where
    this server lacks the commit."""
    applied, known = source.status.applied_commit, cache.commit_jobs
    if known is not None and known.is_applied(source):
        return known.jobs
    if not applied or not repository.has_commit(applied):
        return {}
    return cache.discoverer.discover(CommitTree(repository, applied), source).jobs


def applied_policy(repository: Repository, source: Source, cache: SourceCache) -> RepositoryPolicy:
    """Returns the policy of the applied commit's `orchgit.hcl`, an empty one where this server
    lacks the commit."""
    applied = source.status.applied_commit
    if not applied or not repository.has_commit(applied):
        return RepositoryPolicy()
    return cache.discoverer.policy(CommitTree(repository, applied))[0].of_source(source.name)


class CommitApplier:
    """Applies commits of any source.

    The caller holds the lock of the source's mirror, so one commit of a source is applied at a
    time. Reading, parsing and planning run in threads, so a large commit does not hold up
    heartbeats.
    """

    def __init__(self, context: UseCaseContext, checks_rights: bool = False) -> None:
        """`checks_rights`: sources apply with the rights of their policies, and no others."""
        self._context = context
        self._checks_rights = checks_rights

    def noting(self, context: UseCaseContext) -> CommitApplier:
        """Returns the same applier for the context of one request."""
        return CommitApplier(context, self._checks_rights)

    def source(self, name: str) -> Source:
        """Returns the source as it is stored now. Raises NotFoundError if it was removed."""
        with self._context.snapshot() as snapshot:
            source = snapshot.sources.get(name)
        if source is None:
            raise NotFoundError(f"cannot find source {name!r}: it was deleted")
        return source

    def sources_of(self, repository: str) -> list[Source]:
        """Returns the sources of a repository as they are stored now, by name."""
        with self._context.snapshot() as snapshot:
            return snapshot.sources.of_repository(repository)

    def applied_ref(self, source: Source) -> str:
        """Returns the full name of the ref at which the source's applied commit was found; '' if
        its rollout is not stored any more."""
        with self._context.snapshot() as snapshot:
            rollout = snapshot.rollouts.get(source.status.applied_rollout)
        return rollout.ref if rollout is not None else ""

    async def read(
        self,
        repository: Repository,
        commit_id: str,
        source: Source,
        cache: SourceCache,
        since: str | None = None,
    ) -> ReadCommit:
        """Reads and parses the job files of a commit, and the messages of the commits `since` one,
        by default the applied one. Problems of files are in the result."""

        def read() -> ReadCommit:
            info = repository.commit(commit_id)
            tree = CommitTree(repository, commit_id)
            discovery = cache.discoverer.discover(tree, source)
            applied = source.status.applied_commit
            base = applied if since is None else since
            messages = repository.messages_between(commit_id, base) or [info.message]
            before = applied_jobs(repository, source, cache)
            return ReadCommit(
                info=info,
                tree=tree,
                discovery=discovery,
                may_delete=delete_trailers(messages),
                applied_jobs=before,
                source=source,
                applied_policy=applied_policy(repository, source, cache),
            )

        return await asyncio.to_thread(read)

    async def plan(
        self,
        read: ReadCommit,
        source_name: str,
        cache: SourceCache,
        request: PlanRequest = NO_REQUEST,
    ) -> CommitPlan:
        """Plans the commit against the newest state."""

        def plan() -> CommitPlan:
            with self._context.snapshot() as snapshot:
                source = snapshot.sources.get(source_name)
                if source is None:
                    raise NotFoundError(f"cannot find source {source_name!r}: it was deleted")
                if not request.is_revert:
                    # A commit that loosens its repository's guards is under those before it.
                    prune = narrowed_prune(source.prune, read.applied_policy.prune)
                    source = replace(source, prune=prune)
                rights = rights_of(snapshot, source) if self._checks_rights else MANAGEMENT
                return plan_commit(
                    source,
                    read.discovery,
                    snapshot,
                    read.may_delete,
                    last_applied=cache.last_applied_for(source),
                    applied_jobs=read.applied_jobs,
                    request=with_rights(request, rights=rights),
                    job_settings=self._context.job_settings,
                )

        return await asyncio.to_thread(plan)

    async def plan_between(self, source: Source, old: Discovery, new: Discovery) -> CommitPlan:
        """Plans the change from one tree to another, as if exactly `old` were registered."""

        def plan() -> CommitPlan:
            with self._context.snapshot() as snapshot:
                return plan_between(source, old, new, snapshot, self._context.job_settings)

        return await asyncio.to_thread(plan)

    async def apply(
        self,
        read: ReadCommit,
        plan: CommitPlan,
        trigger: Trigger,
        cache: SourceCache,
        ref_moves: Sequence[RefMove] = (),
        permit: Permit = FREE,
    ) -> Rollout:
        """Commits the plan as one log entry, in which refs of a built-in repository move too.

        A plan of several stages is recorded whole, and its first stage is applied. A revert has one
        stage: what a person takes back goes at once.

        The plan is made again, without reading git again, when a job changed since it was made.
        Raises JobFileError if the new plan has problems, PlanChangedError if it needs another
        permit, and ConflictError if the source's applied commit moved or the jobs keep changing.
        """
        texts = await asyncio.to_thread(_job_file_texts, read, plan)
        for _ in range(MAX_ATTEMPTS):
            now_ns = self._context.now_ns()
            with self._context.snapshot() as snapshot:
                previous = snapshot.rollouts.get(plan.source.status.applied_rollout)
            carried = carried_jobs(plan, previous, read.info.commit.id)
            rollout_id = self._context.ids.new()
            wanted = permit.stamped(
                rollout_of(plan, read.info.commit, trigger, rollout_id, now_ns, carried)
            )
            first = plan.without_later_stages()
            try:
                index, rollout = await apply_rollout(
                    self._context,
                    wanted,
                    expected_commit=plan.source.status.applied_commit,
                    upserts=upserts_of(first, wanted, texts),
                    deletions=deletions_of(first),
                    ref_moves=ref_moves,
                    records=records_of(first, now_ns),
                    renew=plan.request.jobs,
                )
            except ConflictError:
                plan = await self._replan(read, plan, cache)
                permit.check(plan_hash(plan), self._latest(permit))
                continue
            self._note_applied(read, first, rollout, index, cache, plan.request.asked)
            return rollout
        raise ConflictError(
            f"cannot apply commit {read.info.commit.id[:12]}: its jobs were changed by others "
            f"{MAX_ATTEMPTS} times meanwhile; try again"
        )

    def _latest(self, permit: Permit) -> Rollout | None:
        """Returns the record of the rollout that waited for this permit."""
        if permit.waiting is None:
            return None
        with self._context.snapshot() as snapshot:
            return snapshot.rollouts.get(permit.waiting.id)

    async def apply_stage(
        self, read: ReadCommit, plan: CommitPlan, rollout: Rollout, stage: int, cache: SourceCache
    ) -> Rollout:
        """Commits one later stage of a recorded rollout as one log entry.

        `plan` is that of the whole commit, made now. Raises ConflictError if a job, the source or
        the rollout changed since: the caller judges and plans again.
        """
        keys = {(job.namespace, job.job_id) for job in rollout.jobs if job.stage == stage}
        due = plan.only(keys)
        texts = await asyncio.to_thread(_job_file_texts, read, due)
        with self._context.snapshot() as snapshot:
            known = {key: snapshot.jobs.get(*key) for key in keys}
        versions = {key: job.version for key, job in known.items() if job is not None}
        wanted = next_stage_of(rollout, due, stage, versions, self._context.now_ns())
        index, applied = await apply_rollout(
            self._context,
            wanted,
            expected_commit=rollout.commit.id,
            upserts=upserts_of(due, wanted, texts),
            deletions=deletions_of(due),
            records=RecordsChange(remember=due.run_once.remember),
        )
        self._note_applied(read, due, applied, index, cache, keys)
        return applied

    def _note_applied(
        self,
        read: ReadCommit,
        plan: CommitPlan,
        rollout: Rollout,
        index: int,
        cache: SourceCache,
        asked: Collection[JobKey] | None = None,
    ) -> None:
        """Caches the commit's jobs as they are registered; those that wait still are not. `plan` is
        what the entry at `index` carried out.

        With `asked` the entry was about these jobs only: of the others is known what was before.
        """
        changed = {action.key for action in plan.actions.changes}
        held_back = {each.key for each in plan.actions.held} | set(plan.actions.released)
        with self._context.snapshot() as snapshot:
            marks = snapshot.jobs.marks(changed)
        cache.last_applied = last_applied_jobs(
            read.discovery.jobs,
            before=cache.last_applied_for(plan.source) or {},
            unchanged=plan.indexes if asked is None else {},
            changed={key: marks[key][0] for key in marks if marks[key][0] <= index},
            unknown=changed | held_back | unapplied_jobs(rollout) | set(asked or ()),
        )
        cache.applied_commit = rollout.commit.id
        settings = read.source or plan.source
        cache.commit_jobs = CommitJobs(cache.applied_commit, settings, read.discovery.jobs)

    async def _replan(self, read: ReadCommit, plan: CommitPlan, cache: SourceCache) -> CommitPlan:
        again = await self.plan(read, plan.source.name, cache, plan.request)
        if again.source.status.applied_commit != plan.source.status.applied_commit:
            raise ConflictError(
                f"cannot apply commit {read.info.commit.id[:12]}: source {plan.source.name!r} "
                f"moved to {again.source.status.applied_commit[:12]} meanwhile"
            )
        read.refuse_problems(again)
        return again

    async def move_refs(self, source_name: str, moves: Sequence[RefMove]) -> None:
        """Moves refs of a built-in repository in one log entry, without applying a commit."""
        await move_refs(self._context, source_name, moves)

    async def record_refused(
        self, source: Source, read: ReadCommit, problems: Sequence[str], trigger: Trigger
    ) -> Rollout:
        """Records a rollout that says why a commit was refused; nothing else changes."""
        ids, now_ns = self._context.ids, self._context.now_ns()
        rollout = refused_rollout(source, read.info.commit, trigger, problems, ids.new(), now_ns)
        await record_rollout(self._context, rollout)
        return rollout


def _job_file_texts(read: ReadCommit, plan: CommitPlan) -> dict[JobKey, str]:
    """Returns the files of the jobs to register, for `job inspect` and `orchgit blame`."""
    found: dict[JobKey, str] = {}
    for action in plan.actions.changes:
        entry = read.tree.entry(action.desired.path) if action.desired is not None else None
        if entry is None:
            continue
        try:
            found[action.key] = read_file(read.tree, entry).decode("utf-8", "replace")
        except OrchgitError:
            continue  # it parsed a moment ago; without its text the job is still complete
    return found
