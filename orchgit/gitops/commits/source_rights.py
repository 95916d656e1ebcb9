"""What a source may change: it applies with the rights of the policies that it names.

Only while access control is on. A source that names no policy may change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from orchgit.acl.jobs import STOP, missing_in_namespace, missing_to_register
from orchgit.acl.rights import MANAGEMENT, Rights, rights_of_texts
from orchgit.gitops.commits.actions import Action, RegisteredJob
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.model.rollout import JobAction
from orchgit.model.source import EVERY_RIGHT, Source
from orchgit.state.snapshot import Snapshot


def rights_of(snapshot: Snapshot, source: Source) -> Rights:
    """Returns the rights of the source's policies as they are now; a policy that does not exist
    grants nothing, and one that cannot be read takes away what the others grant."""
    if EVERY_RIGHT in source.policies:
        return MANAGEMENT
    found = (snapshot.acl_policies.get(name) for name in source.policies)
    return rights_of_texts([each.rules for each in found if each is not None])


def refused_jobs(
    source: Source,
    rights: Rights,
    wanted: Mapping[JobKey, DesiredJob],
    registered: Mapping[JobKey, RegisteredJob],
    held: Collection[JobKey],
) -> dict[JobKey, str]:
    """Returns a problem for each wanted job that the source may not register.

    It is the same whether such a job is registered or not: a source learns nothing of namespaces
    that its policies do not open. A job that the commit leaves as it is needs no right: one that
    was released from the source, or its own at a held version.
    """
    if rights.is_management:
        return {}
    found: dict[JobKey, str] = {}
    for key, job in wanted.items():
        known = registered.get(key)
        is_released = known is not None and known.was_released_from(source.name)
        if is_released or (key in held and known is not None and known.source == source.name):
            continue
        if missing := missing_to_register(rights, key[0], job.job):
            found[key] = f"{job.path}:{job.line}:1: {_problem(source, 'apply', key, missing)}"
    return found


def refused_deletions(source: Source, rights: Rights, actions: Iterable[Action]) -> list[str]:
    """Returns a problem for each job of the source that it may not delete."""
    return [
        _problem(source, "delete", action.key, missing)
        for action in actions
        if action.kind is JobAction.DELETE
        and (missing := missing_in_namespace(rights, action.key[0], STOP))
    ]


def _problem(source: Source, verb: str, key: JobKey, missing: str) -> str:
    named = ", ".join(source.policies) or "it has none"
    return (
        f"cannot {verb} job {key[1]!r}: the policies of source {source.name!r} ({named}) lack "
        f"{missing}"
    )
