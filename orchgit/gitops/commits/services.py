"""What every way into the cluster (push, source loop, revert, rerun, seed) needs of a server."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orchgit.gitops.commits.applier import CommitApplier
from orchgit.gitops.commits.source_cache import SourceCaches
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.maintenance import Maintenance
from orchgit.gitops.mirrors.mirror import Mirror, MirrorStore
from orchgit.gitops.mirrors.quorum import ObjectQuorum
from orchgit.gitops.mirrors.synchronizer import MirrorSynchronizer
from orchgit.replication.proposal import RequestWrites
from orchgit.services.context import UseCaseContext


@dataclass(frozen=True, slots=True)
class CommitServices:
    """The collaborators by which a commit gets from objects on disk into the log.

    A commit passes them in this order: `git` receives its objects into one of the `mirrors`,
    `quorum` stores them on a majority of the servers, `applier` reads, plans and commits with the
    source's cache of `caches`, `synchronizer` moves the mirror's refs, and `maintenance` packs the
    mirror now and then.
    """

    context: UseCaseContext
    git: GitProcess
    mirrors: MirrorStore
    quorum: ObjectQuorum
    applier: CommitApplier
    caches: SourceCaches
    synchronizer: MirrorSynchronizer
    maintenance: Maintenance

    def mirror_of(self, source_name: str) -> Mirror:
        """Returns the mirror of a stored source, which it may share with others. Raises
        NotFoundError if there is no such source."""
        return self.mirrors.get(self.applier.source(source_name).repository_name)

    def noting(self, writes: RequestWrites | None) -> CommitServices:
        """Returns services that note in `writes` whether they wrote to the log."""
        context = self.context.noting(writes)
        return replace(self, context=context, applier=self.applier.noting(context))
