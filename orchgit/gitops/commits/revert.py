"""Reverting a rollout: the previous commit's jobs in one log entry, the bad commit quarantined.

In a built-in repository the branch gets a revert commit, so that git and the cluster agree. A
remote's branch belongs to its owner: there the quarantine keeps the bad commit from coming back.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as with_fields

from msgspec.structs import replace

from orchgit.errors import ConflictError, NotFoundError
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.git.repository import Repository
from orchgit.gitops.mirrors.rules import full_ref
from orchgit.model.rollout import Commit, JobAction, Rollout, RolloutStatus
from orchgit.model.source import Source, SourceKind
from orchgit.replication.commands import RefMove
from orchgit.services.gitops.rollouts import record_rollout
from orchgit.services.gitops.sources import record_source_status


@dataclass(frozen=True, slots=True)
class Reverter:
    """Reverts rollouts of any source."""

    services: CommitServices

    async def revert(self, rollout_id: str, pusher: str = "") -> Rollout:
        """Reverts a rollout and returns the rollout that does so.

        Raises NotFoundError if there is no such rollout, and ConflictError if its commit is not the
        applied one, is the source's first, or was only run again by it.
        """
        name = self._rollout(rollout_id).source
        mirror, cache = self.services.mirror_of(name), self.services.caches.of(name)
        await self.services.synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            bad, source = self._checked(rollout_id)
            if bad.commit.id not in source.status.quarantined:
                quarantined = [*source.status.quarantined, bad.commit.id]
                status = replace(source.status, quarantined=quarantined)
                await record_source_status(self.services.context, name, status)
            target, moves = bad.previous_commit, []
            follows_branch = full_ref(source.ref).startswith("refs/heads/")
            if source.kind == SourceKind.BUILTIN and follows_branch:
                branch = self._branch(source)
                target = self._write_revert_commit(mirror.open(), branch, bad)
                moves = [RefMove(full_ref(source.ref), branch, target)]
            applier = self.services.applier
            read = await applier.read(mirror.open(), target, source, cache)
            created = {job.job_id for job in bad.jobs if job.action == JobAction.CREATE}
            read = with_fields(read, may_delete=read.may_delete | created)
            plan = await applier.plan(read, name, cache)
            read.refuse_problems(plan)
            await self.services.quorum.hold(mirror.name, [target])
            trigger = Trigger("revert", pusher, reverts=bad.id)
            rollout = await applier.apply(read, plan, trigger, cache, moves)
            await self.services.synchronizer.sync_refs_locked(mirror)
            await self._mark_reverted(bad, rollout)
            return rollout

    def _rollout(self, rollout_id: str) -> Rollout:
        with self.services.context.snapshot() as snapshot:
            rollout = snapshot.rollouts.get(rollout_id)
        if rollout is None or not rollout.source:
            raise NotFoundError(f"cannot revert rollout {rollout_id}: there is no such rollout")
        return rollout

    def _checked(self, rollout_id: str) -> tuple[Rollout, Source]:
        """Returns the rollout to revert and its source, once they may be reverted."""
        bad = self._rollout(rollout_id)
        source = self.services.applier.source(bad.source)
        if source.status.applied_commit != bad.commit.id:
            raise ConflictError(
                f"cannot revert rollout {rollout_id[:8]}: its commit {bad.commit.id[:8]} is not "
                f"the applied one, {source.status.applied_commit[:8] or 'none'} is"
            )
        if not bad.previous_commit:
            raise ConflictError(
                f"cannot revert rollout {rollout_id[:8]}: it was the source's first commit"
            )
        if bad.previous_commit == bad.commit.id:
            raise ConflictError(
                f"cannot revert rollout {rollout_id[:8]}: it only ran jobs of commit "
                f"{bad.commit.id[:8]} again; revert the rollout that applied that commit"
            )
        return bad, source

    def _branch(self, source: Source) -> str:
        """Returns the commit of the followed branch, or ''. The branch of a source that was paused
        may be ahead of what is applied."""
        with self.services.context.snapshot() as snapshot:
            branch = snapshot.git_refs.get(source.repository_name, full_ref(source.ref))
        return branch.object_id if branch else ""

    def _write_revert_commit(self, repository: Repository, branch: str, bad: Rollout) -> str:
        """Writes a commit on top of the branch with the previous commit's tree; returns its id."""
        previous = repository.commit(bad.previous_commit)
        message = (
            f'Revert "{bad.commit.subject}"\n\nThis takes back commit {bad.commit.id}: '
            f"the cluster runs {previous.commit.id[:12]} again.\n"
        )
        now_ns = self.services.context.now_ns()
        author = Commit(author="orchgit", email="orchgit@localhost", time_ns=now_ns)
        is_on_branch = branch and repository.is_descendant(branch, bad.commit.id)
        parent = branch if is_on_branch else bad.commit.id
        return repository.write_commit_of_tree(previous.tree_id, parent, author, message)

    async def _mark_reverted(self, bad: Rollout, rollout: Rollout) -> None:
        """Marks the latest record of the bad rollout, which may have ended during the revert."""
        with self.services.context.snapshot() as snapshot:
            latest = snapshot.rollouts.get(bad.id) or bad
        marked = replace(
            latest,
            status=RolloutStatus.REVERTED,
            status_description=f"reverted by rollout {rollout.id[:8]}",
            finished_time_ns=latest.finished_time_ns or self.services.context.now_ns(),
        )
        await record_rollout(self.services.context, marked)
