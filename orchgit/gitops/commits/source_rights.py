"""What a source may change: it applies with the rights of the policies that it names.

Only while access control is on. A source that names no policy may change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.acl.jobs import STOP, missing_in_namespace, missing_to_register
from orchgit.acl.rights import MANAGEMENT, Rights, rights_of_texts
from orchgit.gitops.commits.actions import Action
from orchgit.model.source import EVERY_RIGHT, Source
from orchgit.state.snapshot import Snapshot


def rights_of(snapshot: Snapshot, source: Source) -> Rights:
    """Returns the rights of the source's policies as they are now; a policy that does not exist
    grants nothing, and one that cannot be read takes away what the others grant."""
    if EVERY_RIGHT in source.policies:
        return MANAGEMENT
    found = (snapshot.acl_policies.get(name) for name in source.policies)
    return rights_of_texts([each.rules for each in found if each is not None])


def problems_of_rights(source: Source, rights: Rights, actions: Iterable[Action]) -> list[str]:
    """Returns a problem for each change that the source may not make."""
    if rights.is_management:
        return []
    named = ", ".join(source.policies) or "it has none"
    return [
        f"{_place(source, action)}cannot {action.kind} job {action.key[1]!r}: the policies of "
        f"source {source.name!r} ({named}) lack {missing}"
        for action in actions
        if (missing := _missing(rights, action))
    ]


def _missing(rights: Rights, action: Action) -> str:
    namespace = action.key[0]
    if action.desired is None:
        return missing_in_namespace(rights, namespace, STOP)
    return missing_to_register(rights, namespace, action.desired.job)


def _place(source: Source, action: Action) -> str:
    """Returns `file:line:1: ` of the job's block, or '' for one that has no file any more."""
    if action.desired is None:
        return ""
    return f"{action.desired.path}:{action.desired.line}:1: "
