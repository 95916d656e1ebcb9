"""Taking a commit back: the earlier commit's jobs in one entry, the bad commit quarantined.

In the built-in repository the branch gets a revert commit, so that git and the cluster agree; a
remote's branch is its owner's: there the quarantine keeps the bad commit from coming back.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as with_fields

from msgspec.structs import replace

from orchgit.errors import ConflictError, NotFoundError
from orchgit.gitops.commits.applier import CommitApplier, SourceCache, refuse_problems
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.git.repository import Repository
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.mirrors.quorum import ObjectQuorum
from orchgit.gitops.mirrors.rules import full_ref
from orchgit.gitops.mirrors.synchronizer import MirrorSynchronizer
from orchgit.model.rollout import Commit, JobAction, Rollout, RolloutStatus
from orchgit.model.source import Source, SourceKind
from orchgit.replication.commands import RefMove
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.rollouts import record_rollout
from orchgit.services.gitops.sources import record_source_status

_AUTHOR, _EMAIL = "orchgit", "orchgit@localhost"


@dataclass(frozen=True, slots=True)
class Reverter:
    context: UseCaseContext
    applier: CommitApplier
    synchronizer: MirrorSynchronizer
    quorum: ObjectQuorum

    async def revert(
        self, rollout_id: str, mirror: Mirror, memory: SourceCache, pusher: str = ""
    ) -> Rollout:
        """The rollout that takes `rollout_id` back. Raises NotFoundError, and ConflictError when
        that rollout's commit is not the applied one (any more), or was the first."""
        await self.synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            bad, source = self._checked(rollout_id)
            await self._quarantine(source, bad.commit.id)
            repository = mirror.open()
            target = self._target(repository, source, bad)
            read = await self.applier.read(repository, target, source, memory)
            created = {job.job_id for job in bad.jobs if job.action == JobAction.CREATE}
            read = with_fields(read, may_delete=read.may_delete | created)
            plan = await self.applier.plan(read, source.name, memory)
            refuse_problems(plan, read)
            trigger = Trigger("revert", pusher, reverts=bad.id)
            await self.quorum.hold(source.name, [target])
            moves = self._moves(source, target)
            rollout = await self.applier.apply(read, plan, trigger, memory, moves)
            await self.synchronizer.sync_refs_locked(mirror)
            await self._mark_reverted(bad, rollout)
            return rollout

    def _checked(self, rollout_id: str) -> tuple[Rollout, Source]:
        with self.context.snapshot() as snapshot:
            bad = snapshot.rollouts.get(rollout_id)
        if bad is None:
            raise NotFoundError(f"cannot revert rollout {rollout_id}: there is none")
        source = self.applier.source(bad.source)
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

    async def _quarantine(self, source: Source, commit_id: str) -> None:
        if commit_id in source.status.quarantined:
            return
        quarantined = [*source.status.quarantined, commit_id]
        status = replace(source.status, quarantined=quarantined)
        await record_source_status(self.context, source.name, status)

    def _target(self, repository: Repository, source: Source, bad: Rollout) -> str:
        """The commit to apply: the previous one, or a revert commit with its tree."""
        if source.kind != SourceKind.BUILTIN:
            return bad.previous_commit
        earlier = repository.commit(bad.previous_commit)
        message = (
            f'Revert "{bad.commit.subject}"\n\nThis takes back commit {bad.commit.id}: '
            f"the cluster runs {earlier.commit.id[:12]} again.\n"
        )
        author = Commit(author=_AUTHOR, email=_EMAIL, time_ns=self.context.now_ns())
        parent = self._branch(source)
        if not parent or not repository.is_descendant(parent, bad.commit.id):
            parent = bad.commit.id
        return repository.write_commit_of_tree(earlier.tree_id, parent, author, message)

    def _moves(self, source: Source, target: str) -> list[RefMove]:
        """The branch of a built-in repository gets the revert commit in the same entry."""
        if source.kind != SourceKind.BUILTIN:
            return []
        return [RefMove(full_ref(source.ref), self._branch(source), target)]

    def _branch(self, source: Source) -> str:
        """Where the followed branch is; a paused source's may be ahead of what is applied."""
        with self.context.snapshot() as snapshot:
            branch = snapshot.git_refs.get(source.name, full_ref(source.ref))
        return branch.object_id if branch else ""

    async def _mark_reverted(self, bad: Rollout, rollout: Rollout) -> None:
        """Marks the latest record of the bad rollout, which may have ended during the revert."""
        with self.context.snapshot() as snapshot:
            latest = snapshot.rollouts.get(bad.id) or bad
        marked = replace(
            latest,
            status=RolloutStatus.REVERTED,
            status_description=f"taken back by rollout {rollout.id[:8]}",
            finished_time_ns=latest.finished_time_ns or self.context.now_ns(),
        )
        await record_rollout(self.context, marked)
