"""Which topics of the event stream a caller may follow, and which of their events it sees. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from orchgit.acl.capabilities import LIST, READ, READ_GITOPS
from orchgit.acl.rights import Rights
from orchgit.model.event import Event

_IN_NAMESPACE = {
    "Job": ("read-job",),
    "Evaluation": ("read-job",),
    "Allocation": ("read-job",),
    "Deployment": ("read-job",),
    "Service": ("read-job",),
    "HostVolume": ("host-volume-read",),
    "CSIVolume": ("csi-read-volume",),
    "Source": READ_GITOPS,
    "Rollout": READ_GITOPS,
    "JobDrift": READ_GITOPS,
    "SourceHealthChange": READ_GITOPS,
}
"""The other topics tell about the whole cluster: only management follows them, but for nodes."""


def may_follow(rights: Rights, topics: Iterable[str], namespaces: Iterable[str]) -> bool:
    """Returns whether all of the topics may be followed in all of the namespaces."""
    if rights.is_management:
        return True
    wanted = list(namespaces)
    return all(_may_follow(rights, topic, each) for topic in topics for each in wanted)


def _may_follow(rights: Rights, topic: str, namespace: str) -> bool:
    if topic == "Node":
        return rights.allows_coarse("node", READ)
    if topic == "Variable":
        return rights.allows_some_variable(namespace, LIST)
    needed = _IN_NAMESPACE.get(topic, ())
    return any(rights.allows_namespace(namespace, each) for each in needed)


def sees_event(rights: Rights, event: Event, source_of: Callable[[str], str | None]) -> bool:
    """Returns whether the event may be told to a caller who follows its topic.

    `source_of` returns the namespace of a rollout's source by the rollout's id.
    """
    if rights.is_management:
        return True
    if event.topic == "Variable":
        return rights.allows_variable(event.namespace, event.key, LIST)
    namespace = event.namespace
    if event.topic == "Rollout":
        namespace = source_of(event.key) or ""
    return _may_follow(rights, event.topic, namespace)
