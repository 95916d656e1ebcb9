"""Whether a source may go from its applied commit to another one. Pure."""

from __future__ import annotations

from orchgit.gitops.git.refs import SEMVER, ResolvedRef, version_of_tag
from orchgit.model.source import Source

_TAGS = "refs/tags/"


def refusal_of_move(source: Source, wanted: ResolvedRef, applied_ref: str, descends: bool) -> str:
    """Returns why the source may not go to the wanted commit, or ''.

    `descends` says whether that commit descends from the applied one, `applied_ref` is the ref that
    the applied commit was found at, or ''. A tag of a newer version need not descend: releases are
    tagged on branches of their own.
    """
    applied = source.status.applied_commit
    if source.allow_rewind or not applied:
        return ""
    allow = f"`orchgit source set {source.name} -allow-rewind` accepts it"
    if source.ref.startswith(SEMVER):
        new, old = (version_of_tag(name, source.tags) for name in (wanted.name, applied_ref))
        if new is not None and old is not None and new > old:
            return ""
        if new is not None and old is not None and new < old:
            return (
                f"cannot go back from tag {_short(applied_ref)} to {_short(wanted.name)}, which is "
                f"the newest in {source.ref!r} now: was the newer tag removed? {allow}"
            )
    if descends:
        return ""
    if wanted.name == applied_ref and wanted.name.startswith(_TAGS):
        return (
            f"cannot apply commit {wanted.commit_id[:12]} of source {source.name!r}: tag "
            f"{_short(wanted.name)} was moved to it from {applied[:12]}, from which it does not "
            f"descend; {allow}"
        )
    return (
        f"cannot apply commit {wanted.commit_id[:12]} of source {source.name!r}: it does not "
        f"descend from the applied commit {applied[:12]}; was history rewritten? {allow}"
    )


def _short(ref: str) -> str:
    return ref.removeprefix(_TAGS)
