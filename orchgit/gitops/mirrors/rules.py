"""What a mirror must hold and show, and what to do about the difference: pure decisions.

The same rules run on every server, so at one index all servers show the same branches and tags.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from orchgit.gitops.git.refs import is_commit_id
from orchgit.model.source import Source, SourceKind
from orchgit.state.snapshot import StateReads

KEPT_PREFIX = "refs/orchgit/keep/"
"""Our own refs, one for each commit that the state names: git then keeps all that it leads to."""
PUBLIC_PREFIXES = ("refs/heads/", "refs/tags/", "refs/notes/")
FIRST_BACKOFF_S = 0.25
MAX_BACKOFF_S = 15.0
MAX_LOST_BACKOFF_S = 3600.0
"""Between two questions for what no server had. It is asked for at once where servers change."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the state says of one source. `refs` is None where the log does not hold the
    repository's refs: a repository that is not built in, or one from before they were in it."""

    refs: Mapping[str, str] | None = None
    head: str = ""
    commits: frozenset[str] = frozenset()
    identity: str = ""
    """Of the source that the repository is for; '': the source was removed."""

    @property
    def objects(self) -> frozenset[str]:
        return self.commits | frozenset((self.refs or {}).values())


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """`put` and `drop` are refs of the mirror; `lacking` are objects to get from elsewhere."""

    put: Mapping[str, str]
    drop: tuple[str, ...]
    lacking: frozenset[str]


def wanted_of(snapshot: StateReads, name: str) -> Wanted:
    """The commits of the applied state, those taken back, and those of rollouts that are kept: what
    a revert, a comparison or a new push may ask for."""
    source = snapshot.sources.get(name)
    refs: dict[str, str] | None = snapshot.git_refs.of_source(name)
    if source is None:
        return Wanted(refs, "", frozenset(snapshot.rollouts.applied_commits(name)))
    # What was fetched for another source of this name is none of this one's.
    since_index = 0 if source.kind == SourceKind.BUILTIN else source.create_index
    commits = snapshot.rollouts.applied_commits(name, since_index)
    commits |= {source.status.applied_commit, *source.status.quarantined}
    commits.discard("")
    if source.kind != SourceKind.BUILTIN or not (refs or not source.status.applied_commit):
        refs = None
    return Wanted(refs, _head(source), frozenset(commits), _identity(source))


def _identity(source: Source) -> str:
    """A built-in repository outlives its source; one that was fetched does not."""
    if source.kind == SourceKind.BUILTIN:
        return source.kind
    return f"{source.kind} {source.create_index}"


def _head(source: Source) -> str:
    """The branch that a clone checks out."""
    ref = full_ref(source.ref)
    return ref if source.kind == SourceKind.BUILTIN and ref.startswith("refs/heads/") else ""


def full_ref(ref: str) -> str:
    """The full name of a built-in repository's branch; remotes are asked what they have."""
    return ref if ref.startswith("refs/") or is_commit_id(ref) else f"refs/heads/{ref}"


def plan_mirror(wanted: Wanted, held: Collection[str], present: Mapping[str, str]) -> MirrorPlan:
    """`held` are the wanted objects that are here with all they lead to, `present` the mirror's
    refs. A ref never points at what is not held: until then it stays where it is. A kept commit is
    let go when the state no longer names it."""
    targets = {f"{KEPT_PREFIX}{commit}": commit for commit in wanted.commits}
    targets.update(wanted.refs or {})
    put = {
        name: target
        for name, target in targets.items()
        if target in held and present.get(name) != target
    }
    drop = tuple(name for name in present if name not in targets and _is_followed(name, wanted))
    return MirrorPlan(put, drop, wanted.objects - frozenset(held))


def shown_refs(refs: Mapping[str, str], missing: Collection[str]) -> dict[str, str]:
    """Returns the refs that a push is shown: those whose object is not in `missing`. A branch whose
    objects no server has any more is hidden, so that git pushes its whole history again."""
    return {name: object_id for name, object_id in refs.items() if object_id not in missing}


def _is_followed(name: str, wanted: Wanted) -> bool:
    """Whether the state decides over a ref of this name."""
    if name.startswith(KEPT_PREFIX):
        return True
    return wanted.refs is not None and name.startswith(PUBLIC_PREFIXES)
