"""The gates of one commit: the source's settings, narrowed by the commit's `orchgit.hcl`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.model.gates import HealthAction, Window
from orchgit.model.repository_policy import PruneRule, RepositoryPolicy
from orchgit.model.source import PrunePolicy, Source


@dataclass(frozen=True, slots=True)
class Gates:
    """What a commit waits for. `windows` are lists, all of which have to be open; the other fields
    are those of `GatePolicy`, and the sources that have to be healthy first."""

    windows: Sequence[Sequence[Window]] = ()
    approvals: int = 0
    pusher_may_approve: bool = False
    require_fit: bool = False
    health: str = HealthAction.REPORT
    health_deadline_ns: int = 0
    depends_on: Sequence[str] = ()


def gates_of(source: Source, policy: RepositoryPolicy, *before: RepositoryPolicy) -> Gates:
    """Returns the gates of a commit whose `orchgit.hcl` says `policy`: the source's, narrowed by
    it and by the policies `before`. A policy adds windows, approvals and gates, and takes none
    away. Dependencies are the source's and those of the commit's own policy."""
    policies = (policy, *before)
    settings, rules = source.gates, [each.gate for each in policies]
    windows = [settings.windows]
    for each in policies:
        found = [Window(e.action, e.cron, e.duration_ns, e.time_zone) for e in each.windows]
        if found not in windows:
            windows.append(found)
    deadlines = [settings.health_deadline_ns, *(rule.deadline_ns or 0 for rule in rules)]
    named = [each.name for each in policy.depends_on_sources]
    reverts = HealthAction.REVERT in (settings.health, *(rule.health for rule in rules))
    return Gates(
        windows=[each for each in windows if each],
        approvals=max([settings.approvals, *(rule.approvals or 0 for rule in rules)]),
        pusher_may_approve=settings.pusher_may_approve,
        require_fit=settings.require_fit or any(rule.require_fit for rule in rules),
        health=HealthAction.REVERT if reverts else HealthAction.REPORT,
        health_deadline_ns=min((each for each in deadlines if each), default=0),
        depends_on=list(dict.fromkeys([*source.depends_on, *named])),
    )


def narrowed_prune(prune: PrunePolicy, rule: PruneRule) -> PrunePolicy:
    """Returns the source's guards of deletions, narrowed by the `prune` block of an
    `orchgit.hcl`."""
    share = prune.max_share_percent
    if rule.max_share_percent is not None:
        share = min(share, rule.max_share_percent)
    enabled = prune.enabled and rule.enabled is not False
    return replace(prune, enabled=enabled, max_share_percent=share)
