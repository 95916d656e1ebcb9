"""Carrying a commit out: read it, plan it, one log entry; planned again when a race was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchgit.errors import ConflictError, JobFileError, NotFoundError, OrchgitError
from orchgit.gitops.commits.actions import delete_trailers
from orchgit.gitops.commits.plan import (
    CommitPlan,
    LastApplied,
    Trigger,
    deletions_of,
    last_applied_jobs,
    plan_between,
    plan_commit,
    refused_rollout,
    rollout_of,
    upserts_of,
)
from orchgit.gitops.git.repository import CommitInfo, Repository
from orchgit.gitops.parsing.discovery import DesiredJob, Discoverer, Discovery, JobKey
from orchgit.gitops.parsing.file_functions import read_file
from orchgit.gitops.parsing.trees import CommitTree, FileTree
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.replication.commands import RefMove
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.rollouts import apply_rollout, record_rollout
from orchgit.services.gitops.sources import move_refs

MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ReadCommit:
    """A commit read whole: what it asks for, and what its messages give leave to delete."""

    info: CommitInfo
    tree: FileTree
    discovery: Discovery
    may_delete: frozenset[str] = frozenset()
    reference: Mapping[JobKey, DesiredJob] = field(default_factory=dict)
    """The applied commit's jobs, for a source that does not remember them yet."""


@dataclass(slots=True)
class SourceCache:
    """What one source's last applied commit asked for; lost at a restart, which costs a parse."""

    discoverer: Discoverer
    applied_commit: str = ""
    last_applied: Mapping[JobKey, LastApplied] = field(default_factory=dict)

    def last_applied_for(self, source: Source) -> Mapping[JobKey, LastApplied] | None:
        """None if another commit than the one remembered is applied."""
        same = self.applied_commit and self.applied_commit == source.status.applied_commit
        return self.last_applied if same else None


class CommitApplier:
    """Applies commits of any source. The caller makes sure that one at a time is under way."""

    def __init__(self, context: UseCaseContext) -> None:
        self._context = context

    async def read(
        self, repository: Repository, commit_id: str, source: Source, memory: SourceCache
    ) -> ReadCommit:
        """Reading and parsing happen in a thread: a large commit must not hold up heartbeats."""
        return await asyncio.to_thread(read_commit, repository, commit_id, source, memory)

    def source(self, name: str) -> Source:
        with self._context.snapshot() as snapshot:
            source = snapshot.sources.get(name)
        if source is None:
            raise NotFoundError(f"cannot find source {name!r}: it was deleted")
        return source

    async def plan(
        self,
        read: ReadCommit,
        source_name: str,
        memory: SourceCache,
        rerun: frozenset[JobKey] = frozenset(),
    ) -> CommitPlan:
        """The plan against the newest state. `rerun`: to create only these jobs of the applied
        commit, though they have run."""
        return await asyncio.to_thread(self._plan, read, source_name, memory, rerun)

    def _plan(
        self,
        read: ReadCommit,
        source_name: str,
        memory: SourceCache,
        rerun: frozenset[JobKey],
    ) -> CommitPlan:
        with self._context.snapshot() as snapshot:
            source = snapshot.sources.get(source_name)
            if source is None:
                raise NotFoundError(f"cannot find source {source_name!r}: it was deleted")
            last_applied = memory.last_applied_for(source)
            return plan_commit(
                source,
                read.discovery,
                snapshot,
                read.may_delete,
                last_applied=last_applied,
                reference=read.reference,
                rerun=rerun,
                job_max_count=self._context.job_max_count,
            )

    async def plan_between(self, source: Source, old: Discovery, new: Discovery) -> CommitPlan:
        """The plan as if exactly the jobs of `old` were registered."""

        def planned() -> CommitPlan:
            with self._context.snapshot() as snapshot:
                return plan_between(source, old, new, snapshot, self._context.job_max_count)

        return await asyncio.to_thread(planned)

    async def apply(
        self,
        read: ReadCommit,
        plan: CommitPlan,
        trigger: Trigger,
        memory: SourceCache,
        ref_moves: Sequence[RefMove] = (),
    ) -> Rollout:
        """Commit the plan; refs of a built-in repository move with it. Raises JobFileError with the
        problems of a plan made again, and ConflictError when the source's applied commit moved or
        the races do not end."""
        texts = await asyncio.to_thread(_texts, read, plan)
        for _ in range(MAX_ATTEMPTS):
            try:
                index, rollout = await self._propose(read, plan, trigger, texts, ref_moves)
            except ConflictError:
                plan = await self._replan(read, plan, memory)
                continue
            self._remember(read, plan.source.name, index, memory)
            return rollout
        raise ConflictError(
            f"cannot apply commit {read.info.commit.id[:12]}: its jobs kept being changed by others"
        )

    async def _propose(
        self,
        read: ReadCommit,
        plan: CommitPlan,
        trigger: Trigger,
        texts: Mapping[JobKey, str],
        ref_moves: Sequence[RefMove],
    ) -> tuple[int, Rollout]:
        now_ns = self._context.now_ns()
        rollout = rollout_of(plan, read.info.commit, trigger, self._context.ids.new(), now_ns)
        return await apply_rollout(
            self._context,
            rollout,
            expected_commit=plan.source.status.applied_commit,
            upserts=upserts_of(plan, rollout, texts),
            deletions=deletions_of(plan),
            ref_moves=ref_moves,
            remember=plan.memory.remember,
            forget=plan.memory.forget,
        )

    def _remember(
        self, read: ReadCommit, source_name: str, index: int, memory: SourceCache
    ) -> None:
        with self._context.snapshot() as snapshot:
            indexes = snapshot.jobs.modify_indexes_of_source(source_name)
        memory.applied_commit = read.info.commit.id
        memory.last_applied = last_applied_jobs(read.discovery.jobs, indexes, index)

    async def _replan(self, read: ReadCommit, plan: CommitPlan, memory: SourceCache) -> CommitPlan:
        again = await self.plan(read, plan.source.name, memory, plan.rerun)
        if again.source.status.applied_commit != plan.source.status.applied_commit:
            raise ConflictError(
                f"cannot apply commit {read.info.commit.id[:12]}: source {plan.source.name!r} "
                f"moved to {again.source.status.applied_commit[:12]} meanwhile"
            )
        refuse_problems(again, read)
        return again

    async def move_refs(self, source_name: str, moves: Sequence[RefMove]) -> None:
        """Move refs of a built-in repository without applying anything."""
        await move_refs(self._context, source_name, moves)

    async def record_refused(
        self, source: Source, read: ReadCommit, problems: tuple[str, ...], trigger: Trigger
    ) -> Rollout:
        """Keep a record of a commit that was refused; nothing else changes."""
        rollout = refused_rollout(
            source,
            read.info.commit,
            trigger,
            problems,
            self._context.ids.new(),
            self._context.now_ns(),
        )
        await record_rollout(self._context, rollout)
        return rollout


def refuse_problems(plan: CommitPlan, read: ReadCommit) -> None:
    if plan.problems:
        raise JobFileError(
            f"cannot apply commit {read.info.commit.id[:12]}:\n" + "\n".join(plan.problems),
            plan.problems,
        )


def read_commit(
    repository: Repository, commit_id: str, source: Source, memory: SourceCache
) -> ReadCommit:
    info = repository.commit(commit_id)
    tree = CommitTree(repository, commit_id)
    discovery = memory.discoverer.discover(tree, source)
    messages = repository.messages_between(commit_id, source.status.applied_commit)
    if not messages:
        messages = [info.message]
    applied, reference = source.status.applied_commit, {}
    if applied and not source.status.remembers_jobs and repository.has_commit(applied):
        reference = memory.discoverer.discover(CommitTree(repository, applied), source).jobs
    return ReadCommit(info, tree, discovery, delete_trailers(messages), reference)


def _texts(read: ReadCommit, plan: CommitPlan) -> dict[JobKey, str]:
    """The files of the jobs to register, for `job inspect` and `orchgit blame`."""
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
