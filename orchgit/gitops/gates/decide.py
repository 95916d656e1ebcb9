"""Whether a commit may be applied now, and what it waits for otherwise. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchgit.gitops.gates.approvals import approval_reason, valid_approvals
from orchgit.gitops.gates.policy import Gates
from orchgit.gitops.gates.windows import next_opening_ns
from orchgit.model.base import datetime_of_ns
from orchgit.model.gates import GateDecision, GateKind, RolloutGates, WindowOverride
from orchgit.model.rollout import Rollout, RolloutStatus


@dataclass(frozen=True, slots=True)
class GateFacts:
    """What the gates decide on. `waiting` is the commit's rollout if it waits already; `override`
    a person's decision to pass the windows; `misfit` what has no room, or ''; `unready` which
    sources it depends on are not healthy, or ''."""

    now_ns: int
    plan_hash: str
    waiting: Rollout | None = None
    override: WindowOverride | None = None
    misfit: str = ""
    unready: str = ""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """`status` is '' if the commit may be applied, else that of a rollout that waits; `description`
    says for what. `record` is what the rollout keeps of it; `plan_hash` names what persons approve.
    """

    record: RolloutGates
    plan_hash: str
    status: str = ""
    description: str = ""

    @property
    def is_open(self) -> bool:
        return not self.status


def decide(gates: Gates, facts: GateFacts) -> GateVerdict:
    """Returns whether every gate of a commit is open. Approvals may come before a window opens, so
    the lack of one shows first."""
    known = facts.waiting.gates if facts.waiting is not None else None
    record = RolloutGates(
        approvals_needed=gates.approvals,
        pusher_may_approve=gates.pusher_may_approve,
        approvals=list(known.approvals) if known is not None else [],
        override=facts.override or (known.override if known is not None else None),
        health=gates.health,
        health_deadline_ns=gates.health_deadline_ns,
        depends_on=list(gates.depends_on),
    )
    record.decisions = list(_decisions(gates, facts, record))
    closed = {each.gate for each in record.decisions if not each.is_open}
    if not closed:
        return GateVerdict(record, facts.plan_hash)
    awaits = GateKind.APPROVAL in closed
    status = RolloutStatus.AWAITING_APPROVAL if awaits else RolloutStatus.PENDING
    return GateVerdict(record, facts.plan_hash, status, waits_for(record))


def waits_for(record: RolloutGates) -> str:
    """Returns what a rollout waits for, in one line; '' for nothing."""
    return "; ".join(each.reason for each in record.decisions if not each.is_open)


def _decisions(gates: Gates, facts: GateFacts, record: RolloutGates) -> Iterator[GateDecision]:
    """Yields a decision for each gate that the commit has, and sets when the window opens."""
    if gates.approvals:
        count = len(valid_approvals(record.approvals, facts.plan_hash))
        reason = approval_reason(record, facts.plan_hash)
        yield GateDecision(GateKind.APPROVAL, count >= gates.approvals, reason)
    if gates.depends_on:
        healthy = f"healthy: {', '.join(gates.depends_on)}"
        reason = f"waits for sources: {facts.unready}" if facts.unready else healthy
        yield GateDecision(GateKind.SOURCES, not facts.unready, reason)
    if gates.windows:
        opens_ns = next_opening_ns(gates.windows, facts.now_ns)
        is_open = opens_ns is not None and opens_ns <= facts.now_ns
        if not is_open and record.override is not None:
            override = record.override
            reason = f"outside its window, overridden by {override.by}: {override.reason}"
            yield GateDecision(GateKind.WINDOW, True, reason)
        else:
            record.opens_time_ns = 0 if is_open or opens_ns is None else opens_ns
            if is_open:
                reason = "inside its window"
            elif opens_ns is None:
                reason = "outside its window, which does not open within 400 days"
            else:
                reason = f"outside its window, which opens at {moment_text(opens_ns)}"
            yield GateDecision(GateKind.WINDOW, is_open, reason)
    if gates.require_fit:
        reason = f"does not fit: {facts.misfit}" if facts.misfit else "fits"
        yield GateDecision(GateKind.FIT, not facts.misfit, reason)


def moment_text(time_ns: int) -> str:
    """Returns a moment in UTC, to the second."""
    return datetime_of_ns(time_ns).strftime("%Y-%m-%d %H:%M:%S UTC")


def may_go_on(rollout: Rollout, now_ns: int) -> bool:
    """Returns whether the record of a waiting rollout suggests that its gates may be open now, so
    that they are worth another look. Room is not in the record."""
    record = rollout.gates
    if record is None:
        return True
    approvals = len(valid_approvals(record.approvals, rollout.plan_hash))
    window_is_closed = any(
        each.gate == GateKind.WINDOW and not each.is_open for each in record.decisions
    )
    if window_is_closed and record.override is None:
        window_is_closed = not 0 < record.opens_time_ns <= now_ns
    else:
        window_is_closed = False
    return approvals >= record.approvals_needed and not window_is_closed


def waits_for_sources(rollout: Rollout) -> str:
    """Returns the reason why the rollout waits for other sources, as it is recorded, or ''."""
    decisions = rollout.gates.decisions if rollout.gates is not None else ()
    reasons = (
        each.reason for each in decisions if each.gate == GateKind.SOURCES and not each.is_open
    )
    return next(reasons, "")


def waits_for_room(rollout: Rollout) -> bool:
    """Returns whether the rollout waits until its work has room."""
    return rollout.gates is not None and any(
        each.gate == GateKind.FIT and not each.is_open for each in rollout.gates.decisions
    )
