"""Which objects and refs a mirror must have by the state, and how it gets there. Pure.

The same rules run on every server, so at one index all servers show the same branches and tags.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from orchgit.gitops.git.refs import SEMVER, is_commit_id, newest_tag
from orchgit.model.rollout import ROLLOUTS_KEPT
from orchgit.model.source import Source, SourceKind
from orchgit.state.snapshot import StateReads

KEPT_PREFIX = "refs/orchgit/keep/"
"""Refs of our own, one for each commit that the state names, so that git keeps its objects."""
PUBLIC_PREFIXES = ("refs/heads/", "refs/tags/", "refs/notes/")
FIRST_BACKOFF_S = 0.25
MAX_BACKOFF_S = 15.0
MAX_LOST_BACKOFF_S = 3600.0
"""The longest pause before objects that no server had are asked for again. They are asked for at
once when the servers change."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the state says of one source's repository.

    `refs` is None where the log does not hold the refs: for a repository that is not built in, or
    from before refs were in the log. `head` is the branch that a clone checks out, or ''.
    `identity` names the source that the repository is for, or is '' if the source was removed.
    """

    refs: Mapping[str, str] | None = None
    head: str = ""
    commits: frozenset[str] = frozenset()
    identity: str = ""

    @property
    def objects(self) -> frozenset[str]:
        """All objects that the mirror must have, with everything reachable from them."""
        return self.commits | frozenset((self.refs or {}).values())


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """Refs of the mirror to set and to delete, and objects to get from other servers."""

    put: Mapping[str, str]
    drop: frozenset[str]
    lacking: frozenset[str]


def wanted_of(snapshot: StateReads, name: str) -> Wanted:
    """Returns what the mirror of a repository must have: its refs, and the commits that a revert, a
    comparison or a push may ask for. These are the applied one, those of the rollouts that the
    garbage collector leaves, those that wait at their gates, and those that were reverted. git
    keeps older ones too as long as a branch or tag contains them."""
    sources = snapshot.sources.of_repository(name)
    refs: dict[str, str] | None = snapshot.git_refs.of_source(name)
    if not sources:
        return Wanted(refs, "", frozenset(snapshot.rollouts.applied_commits(name, ROLLOUTS_KEPT)))
    commits: set[str] = set()
    for source in sources:
        # Commits that were fetched for an earlier source of this name do not belong to this one.
        since_index = 0 if source.kind == SourceKind.BUILTIN else source.create_index
        commits |= snapshot.rollouts.applied_commits(source.name, ROLLOUTS_KEPT, since_index)
        commits |= {source.status.applied_commit, *source.status.quarantined}
        commits |= {rollout.commit.id for rollout in snapshot.rollouts.waiting(source.name)}
    commits.discard("")
    first = next((source for source in sources if source.name == name), sources[0])
    if first.kind != SourceKind.BUILTIN:
        # A fetched repository goes with its source; a built-in one stays.
        identity = f"{first.kind} {first.create_index}"
        return Wanted(None, "", frozenset(commits), identity)
    if not refs and any(source.status.applied_commit for source in sources):
        refs = None
    followed = (full_ref(source.ref) for source in (first, *sources))
    head = next((ref for ref in followed if ref.startswith("refs/heads/")), "")
    return Wanted(refs, head, frozenset(commits), first.kind)


def full_ref(ref: str) -> str:
    """Returns the full name of a built-in repository's branch; a remote lists its own refs."""
    is_full = ref.startswith(("refs/", SEMVER)) or is_commit_id(ref)
    return ref if is_full else f"refs/heads/{ref}"


def followed_ref(source: Source, names: Iterable[str]) -> str:
    """Returns the full name of the ref that a source of a built-in repository with these refs
    follows now; '' if it follows a range of versions and no tag is in the range."""
    if source.ref.startswith(SEMVER):
        return newest_tag(source.ref, names, source.tags) or ""
    return full_ref(source.ref)


def plan_mirror(wanted: Wanted, held: Collection[str], present: Mapping[str, str]) -> MirrorPlan:
    """Returns what to do so that the mirror shows what is wanted.

    `held` are the wanted objects that are here with everything reachable from them, `present` the
    mirror's refs. A ref moves only to a held object. A ref of ours goes when the state no longer
    names its commit.
    """
    targets = {f"{KEPT_PREFIX}{commit}": commit for commit in wanted.commits}
    targets.update(wanted.refs or {})
    put = {
        name: target
        for name, target in targets.items()
        if target in held and present.get(name) != target
    }
    # Other refs, like those of a fetched repository, are not for the state to decide.
    decided = (KEPT_PREFIX, *(PUBLIC_PREFIXES if wanted.refs is not None else ()))
    drop = frozenset(each for each in present if each not in targets and each.startswith(decided))
    return MirrorPlan(put, drop, wanted.objects - frozenset(held))


def shown_refs(refs: Mapping[str, str], missing: Collection[str]) -> dict[str, str]:
    """Returns the refs that a push is shown: those whose object is not in `missing`. A branch whose
    objects no server has any more is hidden, so that git pushes its whole history again."""
    return {name: object_id for name, object_id in refs.items() if object_id not in missing}
