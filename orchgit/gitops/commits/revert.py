"""Going back to an earlier commit: its jobs in one log entry, and what they replace is held.

In a built-in repository the branch gets a commit with the earlier tree, so that git and the cluster
agree. A remote's branch belongs to its owner: there the versions that were taken back are held, so
that no later commit brings them back as long as it leaves their files as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from dataclasses import replace as with_fields
from email.utils import format_datetime

from msgspec.structs import replace

from orchgit.errors import ConflictError, JobFileError, NotFoundError
from orchgit.gitops.commits.applier import ReadCommit
from orchgit.gitops.commits.forecast import Forecaster
from orchgit.gitops.commits.log_entry import plan_hash
from orchgit.gitops.commits.plan import CommitPlan, Trigger
from orchgit.gitops.commits.plan_request import PlanRequest
from orchgit.gitops.commits.preview import Preview, preview_of
from orchgit.gitops.commits.rollback import (
    NOBODY,
    RollbackRequest,
    git_commands,
    patch_mail,
    revert_message,
    rollback_hash,
    taken_back_versions,
)
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.git.repository import CommitInfo, Repository
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.mirrors.rules import full_ref
from orchgit.gitops.parsing.desired import JobKey
from orchgit.gitops.parsing.trees import CommitTree
from orchgit.model.base import datetime_of_ns
from orchgit.model.ownership import runs_once
from orchgit.model.rollout import Commit, Rollout, RolloutStatus
from orchgit.model.source import Source, SourceKind
from orchgit.replication.commands.gitops import RefMove
from orchgit.services.gitops.rollouts import record_rollout
from orchgit.services.gitops.sources import record_source_status

_MAX_TAKEN_BACK = 1000
_MAX_PATCH_BYTES = 8 * 1024 * 1024


class RollbackPreview(Preview, kw_only=True):
    """What going back from `applied_commit` to `target` would do now. `taken_back` are the commits
    that it undoes, newest first; `commands` bring a remote's branch to the target, and so does
    `patch`, by `git am`. `message` is for a commit that does so."""

    target: Commit
    message: str = ""
    taken_back: list[Commit] = []
    commands: list[str] = []
    patch: str = ""


@dataclass(frozen=True, slots=True)
class _Rollback:
    """A rollback that is planned and not applied. `branch` is where the followed branch of a
    built-in repository is; `problems` refuse the rollback."""

    source: Source
    repository: Repository
    target: CommitInfo
    taken_back: tuple[CommitInfo, ...]
    branch: str
    read: ReadCommit
    plan: CommitPlan
    problems: tuple[str, ...]

    @property
    def hash(self) -> str:
        applied = self.source.status.applied_commit
        return rollback_hash(plan_hash(self.plan), (applied, self.branch, self.target.commit.id))


@dataclass(frozen=True, slots=True)
class Reverter:
    """Takes sources of any kind back to earlier commits."""

    services: CommitServices
    forecaster: Forecaster

    async def revert(self, rollout_id: str, request: RollbackRequest = NOBODY) -> Rollout:
        """Goes back to the commit before a rollout's, and returns the rollout that does so.

        Raises NotFoundError if there is no such rollout, ConflictError if its commit is not the
        applied one, is the source's first, or was only run again by it, and what `rollback` does.
        """
        bad = self._rollout(rollout_id)
        async with self._locked(bad.source) as (mirror, source):
            target = self._commit_before(source, bad)
            rollback = await self._planned(mirror, source, target, request)
            return await self._apply(mirror, rollback, request, bad.id)

    async def rollback(
        self, source_name: str, commit: str, request: RollbackRequest = NOBODY
    ) -> Rollout:
        """Goes back to an earlier commit of the source; `commit` is the beginning of its id.

        Raises NotFoundError if there is no such commit, JobFileError for problems of the plan, and
        ConflictError if the commit is no earlier one of the source, if the plan is not the expected
        one, or if a push came first.
        """
        async with self._locked(source_name) as (mirror, source):
            target = self._earlier_commit(mirror.open(), source, commit)
            rollback = await self._planned(mirror, source, target, request)
            return await self._apply(mirror, rollback, request, source.status.applied_rollout)

    async def preview_revert(self, rollout_id: str, request: RollbackRequest) -> RollbackPreview:
        """Returns what `revert` would do now. Raises what it does, but for problems of the plan."""
        bad = self._rollout(rollout_id)
        async with self._locked(bad.source) as (mirror, source):
            target = self._commit_before(source, bad)
            rollback = await self._planned(mirror, source, target, request)
        return await self._preview(rollback, request)

    async def preview_rollback(
        self, source_name: str, commit: str, request: RollbackRequest
    ) -> RollbackPreview:
        """Returns what `rollback` would do now. Raises what it does, but for problems of the
        plan."""
        async with self._locked(source_name) as (mirror, source):
            target = self._earlier_commit(mirror.open(), source, commit)
            rollback = await self._planned(mirror, source, target, request)
        return await self._preview(rollback, request)

    @asynccontextmanager
    async def _locked(self, source_name: str) -> AsyncIterator[tuple[Mirror, Source]]:
        """Keeps other commits of the source away, and returns it as it is stored."""
        applier = self.services.applier
        applier.source(source_name)
        mirror = self.services.mirror_of(source_name)
        await self.services.synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            yield mirror, applier.source(source_name)

    def _rollout(self, rollout_id: str) -> Rollout:
        with self.services.context.snapshot() as snapshot:
            rollout = snapshot.rollouts.get(rollout_id)
        if rollout is None or not rollout.source:
            raise NotFoundError(f"cannot revert rollout {rollout_id}: there is no such rollout")
        return rollout

    def _commit_before(self, source: Source, bad: Rollout) -> str:
        """Returns the commit to which reverting the rollout leads."""
        where = f"cannot revert rollout {bad.id[:8]}"
        if source.status.applied_commit != bad.commit.id:
            raise ConflictError(
                f"{where}: its commit {bad.commit.id[:8]} is not the applied one, "
                f"{source.status.applied_commit[:8] or 'none'} is; `orchgit source rollback "
                f"{source.name} COMMIT` goes back to any earlier commit"
            )
        if not bad.previous_commit:
            raise ConflictError(f"{where}: it was the source's first commit")
        if bad.previous_commit == bad.commit.id:
            raise ConflictError(
                f"{where}: it only ran jobs of commit {bad.commit.id[:8]} again; revert the "
                f"rollout that applied that commit, or `orchgit source rollback {source.name} "
                "COMMIT`"
            )
        return bad.previous_commit

    def _earlier_commit(self, repository: Repository, source: Source, text: str) -> str:
        """Returns the id of a commit that the source had before."""
        applied = source.status.applied_commit
        where = f"cannot take source {source.name!r} back to {text[:64]!r}"
        if not applied:
            raise ConflictError(f"{where}: no commit of it was applied yet")
        found = repository.find_commit(text)
        if found is None:
            raise NotFoundError(
                f"{where}: its repository has no such commit, or several; `orchgit rollout list "
                f"-source {source.name}` shows the applied ones"
            )
        if found == applied:
            raise ConflictError(f"{where}: it is the applied commit")
        with self.services.context.snapshot() as snapshot:
            was_applied = snapshot.rollouts.was_applied(source.name, found)
        if not was_applied and not repository.is_descendant(applied, found):
            raise ConflictError(
                f"{where}: it is no ancestor of the applied commit {applied[:8]}, and was not "
                "applied before; push it to apply it"
            )
        return found

    async def _planned(
        self, mirror: Mirror, source: Source, target_id: str, request: RollbackRequest
    ) -> _Rollback:
        repository, applier = mirror.open(), self.services.applier
        cache = self.services.caches.of(source.name)
        applied = source.status.applied_commit
        branch = self._branch(repository, source)
        read = await applier.read(repository, target_id, source, cache)
        hold = taken_back_versions(
            source,
            read.applied_jobs,
            read.discovery.jobs,
            request,
            self.services.context.now_ns(),
        )
        keys, problems = self._deletions(source, read, request)
        read = with_fields(read, may_delete=frozenset("/".join(key) for key in keys))
        plan = await applier.plan(read, source.name, cache, PlanRequest(hold=hold, is_revert=True))
        plan = with_fields(plan, warnings=(*plan.warnings, *self._warnings(source, plan)))
        since = branch or applied
        taken_back = repository.commits_between(since, target_id, _MAX_TAKEN_BACK)
        return _Rollback(
            source=source,
            repository=repository,
            target=read.info,
            taken_back=tuple(taken_back),
            branch=branch,
            read=read,
            plan=plan,
            problems=(*problems, *plan.problems),
        )

    def _branch(self, repository: Repository, source: Source) -> str:
        """Returns where the followed branch of a built-in repository is; '' for other sources, and
        for refs from before refs were in the log. Raises ConflictError if the branch has left the
        applied commit."""
        if not _follows_builtin_branch(source):
            return ""
        with self.services.context.snapshot() as snapshot:
            found = snapshot.git_refs.get(source.repository_name, full_ref(source.ref))
        applied = source.status.applied_commit
        if found is not None and not repository.is_descendant(found.object_id, applied):
            raise ConflictError(
                f"cannot take source {source.name!r} back: its branch is at "
                f"{found.object_id[:8]}, which does not descend from the applied commit "
                f"{applied[:8]}; apply it first (`orchgit source resume {source.name}`), or push "
                "the commit that you want"
            )
        return found.object_id if found is not None else ""

    def _deletions(
        self, source: Source, read: ReadCommit, request: RollbackRequest
    ) -> tuple[list[JobKey], list[str]]:
        """Returns the source's jobs that going back may delete, and why others may not be."""
        with self.services.context.snapshot() as snapshot:
            keys = [
                key
                for key in snapshot.jobs.modify_indexes_of_source(source.name)
                if key not in read.discovery.jobs
            ]
            claims = {(each.namespace, each.job_id) for each in snapshot.volume_claims.all()}
        unnamed = sorted(
            key
            for key in keys
            if key in claims
            and key[1] not in request.delete
            and "/".join(key) not in request.delete
        )
        problems = [
            f"cannot delete job {job_id!r}, which commit {read.info.commit.id[:8]} does not have: "
            f"it owns sticky volume claims; `-delete {job_id}` deletes it"
            for _, job_id in unnamed
        ]
        return keys, problems

    def _warnings(self, source: Source, plan: CommitPlan) -> list[str]:
        """Returns what a person may not expect of going back."""
        warnings = [
            f"job {action.key[1]!r} runs once, and runs again in its earlier version"
            for action in plan.actions.changes
            if action.desired is not None and runs_once(action.desired.job)
        ]
        others = [
            each.name
            for each in self.services.applier.sources_of(source.repository_name)
            if each.name != source.name and full_ref(each.ref) == full_ref(source.ref)
        ]
        if others and _follows_builtin_branch(source):
            warnings.append(f"sources that follow the same branch go back too: {', '.join(others)}")
        return warnings

    async def _preview(self, rollback: _Rollback, request: RollbackRequest) -> RollbackPreview:
        forecast = None if rollback.problems else await self.forecaster.forecast(rollback.plan)
        shown = preview_of(rollback.plan, forecast)
        target, applied = rollback.target.commit, rollback.source.status.applied_commit
        fields = {name: getattr(shown, name) for name in shown.__struct_fields__}
        fields |= {"problems": list(rollback.problems), "plan_hash": rollback.hash}
        commands: list[str] = []
        patch = ""
        if not _follows_builtin_branch(rollback.source):
            commands = git_commands(target.id, applied, rollback.taken_back)
            patch = await asyncio.to_thread(self._patch, rollback, request)
        return RollbackPreview(
            **fields,
            target=target,
            message=revert_message(target, rollback.taken_back, request),
            taken_back=[each.commit for each in rollback.taken_back],
            commands=commands,
            patch=patch,
        )

    def _patch(self, rollback: _Rollback, request: RollbackRequest) -> str:
        """Returns the change from the applied commit's tree to the target's; '' if it is too
        large."""
        target, now_ns = rollback.target.commit, self.services.context.now_ns()
        applied = rollback.source.status.applied_commit
        diff = rollback.repository.diff(applied, target.id, _MAX_PATCH_BYTES)
        message = revert_message(target, rollback.taken_back, request)
        date = format_datetime(datetime_of_ns(now_ns))
        return patch_mail(target, diff, message, request.author(now_ns), date) if diff else ""

    async def _apply(
        self, mirror: Mirror, rollback: _Rollback, request: RollbackRequest, reverts: str
    ) -> Rollout:
        source, read, target = rollback.source, rollback.read, rollback.target.commit
        applier = self.services.applier
        if request.expected_plan and request.expected_plan != rollback.hash:
            raise ConflictError(
                f"cannot take source {source.name!r} back to {target.id[:8]}: what that does has "
                "changed since you saw it; look at the plan again"
            )
        if rollback.problems:
            raise JobFileError(
                f"cannot take source {source.name!r} back to {target.id[:8]}:\n"
                + "\n".join(rollback.problems),
                rollback.problems,
            )
        applied_id, moves = target.id, []
        if _follows_builtin_branch(source):
            applied_id = rollback.repository.write_commit_of_tree(
                rollback.target.tree_id,
                rollback.branch or source.status.applied_commit,
                request.author(self.services.context.now_ns()),
                revert_message(target, rollback.taken_back, request),
            )
            moves = [RefMove(full_ref(source.ref), rollback.branch, applied_id)]
            info = rollback.repository.commit(applied_id)
            read = with_fields(read, info=info, tree=CommitTree(rollback.repository, applied_id))
        await self.services.quorum.hold(mirror.name, [applied_id])
        trigger = Trigger("revert", request.by, reverts=reverts, reason=request.reason.strip())
        cache = self.services.caches.of(source.name)
        rollout = await applier.apply(read, rollback.plan, trigger, cache, moves)
        await self._quarantine(source.name, source.status.applied_commit, target.id)
        await self._mark_reverted(rollback, rollout)
        await self.services.synchronizer.sync_refs_locked(mirror)
        return rollout

    async def _quarantine(self, source_name: str, bad: str, target: str) -> None:
        """Keeps the source from following the commit that was taken back. What that commit has is
        held already, in the rollout's own entry."""
        status = self.services.applier.source(source_name).status
        kept = [each for each in status.quarantined if each not in (bad, target)]
        status = replace(status, quarantined=[*kept, bad])
        await record_source_status(self.services.context, source_name, status)

    async def _mark_reverted(self, rollback: _Rollback, rollout: Rollout) -> None:
        """Marks the newest records of the rollouts that were taken back."""
        ids = {rollback.source.status.applied_commit}
        ids.update(each.commit.id for each in rollback.taken_back)
        for commit_id in ids:
            with self.services.context.snapshot() as snapshot:
                found = snapshot.rollouts.all(rollback.source.name, commit_id=commit_id)
            for each in found:
                if not each.was_applied or each.status == RolloutStatus.REVERTED:
                    continue
                marked = replace(
                    each,
                    status=RolloutStatus.REVERTED,
                    status_description=f"reverted by rollout {rollout.id[:8]}",
                    finished_time_ns=each.finished_time_ns or self.services.context.now_ns(),
                )
                await record_rollout(self.services.context, marked)


def _follows_builtin_branch(source: Source) -> bool:
    """Returns whether the server may bring the source's branch back: it is its own, and no tag."""
    return source.kind == SourceKind.BUILTIN and full_ref(source.ref).startswith("refs/heads/")
