"""Gates of a source: what a commit waits for before it is applied, and what a rollout recorded."""

from __future__ import annotations

from enum import StrEnum

from orchgit.model.base import Model


class WindowAction(StrEnum):
    ALLOW = "allow"
    DENY = "deny"


class HealthAction(StrEnum):
    """What happens to a commit that is not healthy in time."""

    REPORT = "report"
    REVERT = "revert"


class Window(Model):
    """A span of time that begins whenever local time in `time_zone` matches `cron`, and lasts for
    `duration_ns`. `time_zone` is an IANA name; '' is UTC."""

    action: str = WindowAction.ALLOW
    cron: str = ""
    duration_ns: int = 0
    time_zone: str = ""


class GatePolicy(Model):
    """What every commit of a source waits for.

    A commit is applied inside a window that allows it, if there is one, and outside every window
    that denies it; after `approvals` persons approved its plan; and, with `require_fit`, when all
    of its work has room. With `health` "revert" a commit that fails, or that is not healthy within
    `health_deadline_ns` (0: no further deadline), goes back whole.
    """

    windows: list[Window] = []
    approvals: int = 0
    pusher_may_approve: bool = False
    require_fit: bool = False
    health: str = HealthAction.REPORT
    health_deadline_ns: int = 0


class Approval(Model):
    """A person's consent to exactly one plan. `by` is what the person claims to be called."""

    by: str = ""
    plan_hash: str = ""
    time_ns: int = 0


class WindowOverride(Model):
    """A person's decision to apply a commit outside its windows."""

    by: str = ""
    reason: str = ""
    time_ns: int = 0


class GateKind(StrEnum):
    WINDOW = "window"
    APPROVAL = "approval"
    FIT = "fit"
    SOURCES = "sources"


class GateDecision(Model):
    """Whether one gate lets a commit through, and why."""

    gate: str = ""
    is_open: bool = False
    reason: str = ""


class RolloutGates(Model):
    """What the gates decided about a rollout's commit.

    `decisions` has one entry for each gate that the commit has. `opens_time_ns` is when the next
    window opens; 0: it need not, or none is in sight. `health` is what happens if the rollout is
    not healthy within `health_deadline_ns`, and `health_outcome` what was done. `depends_on` are
    the sources that have to be healthy first.
    """

    decisions: list[GateDecision] = []
    opens_time_ns: int = 0
    approvals_needed: int = 0
    pusher_may_approve: bool = False
    approvals: list[Approval] = []
    override: WindowOverride | None = None
    health: str = HealthAction.REPORT
    health_deadline_ns: int = 0
    health_outcome: str = ""
    depends_on: list[str] = []
