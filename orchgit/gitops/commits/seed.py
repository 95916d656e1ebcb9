"""The first commit of a built-in repository, made by the server itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchgit.errors import InvalidInputError
from orchgit.gitops.commits.gatekeeper import Gatekeeper
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.git.refs import SEMVER, is_commit_id
from orchgit.gitops.mirrors.rules import full_ref
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.source import SourceKind
from orchgit.replication.commands.gitops import RefMove


@dataclass(frozen=True, slots=True)
class Seeder:
    """Commits files to empty built-in repositories."""

    services: CommitServices
    gatekeeper: Gatekeeper

    async def seed(self, name: str, files: Mapping[str, bytes], message: str) -> Rollout | None:
        """Commits files to an empty built-in repository and applies them, as a first push would.

        Returns the rollout, or None if the repository has a branch already. Raises
        InvalidInputError for a source that is not built in, or follows neither a branch nor a tag,
        and for files with problems.
        """
        context, applier = self.services.context, self.services.applier
        source = applier.source(name)
        if source.kind != SourceKind.BUILTIN:
            raise InvalidInputError(f"cannot seed source {name!r}: it is not built in")
        if source.ref.startswith(SEMVER) or is_commit_id(source.ref):
            raise InvalidInputError(
                f"cannot seed source {name!r}: it follows {source.ref!r}, which a first commit of "
                "the server is not; push one with a tag, or let the source follow a branch"
            )
        repository_name = source.repository_name
        mirror, cache = self.services.mirrors.get(repository_name), self.services.caches.of(name)
        async with mirror.lock:
            if self.services.synchronizer.refs(repository_name):
                return None
            repository = mirror.open()
            author = Commit(author="orchgit", email="orchgit@localhost", time_ns=context.now_ns())
            commit_id = repository.write_commit(None, files, author, message)
            read = await applier.read(repository, commit_id, source, cache)
            plan = await applier.plan(read, name, cache)
            if plan.problems:
                raise InvalidInputError(f"cannot seed {name!r}:\n" + "\n".join(plan.problems))
            await self.services.quorum.hold(repository_name, [commit_id])
            move = RefMove(full_ref(source.ref), "", commit_id)
            rollout = await self.gatekeeper.carry_out(read, plan, Trigger("push"), cache, [move])
            await self.services.synchronizer.sync_refs_locked(mirror)
            return rollout
