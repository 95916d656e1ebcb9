"""Approvals: who may approve a plan, and which approvals still count. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchgit.errors import ConflictError, InvalidInputError, RefusedError
from orchgit.model.gates import Approval, GateKind, RolloutGates
from orchgit.model.rollout import Rollout

MAX_NAME_LENGTH = 200
MAX_REASON_LENGTH = 1_000


def valid_approvals(approvals: Sequence[Approval], plan_hash: str) -> list[Approval]:
    """Returns the approvals of exactly this plan; those of an earlier plan have lapsed."""
    return [each for each in approvals if each.plan_hash == plan_hash]


def approved(rollout: Rollout, by: str, plan_hash: str, now_ns: int) -> Rollout:
    """Returns the rollout with the approval of a person.

    Raises InvalidInputError without a name or a hash, RefusedError for the commit's author or
    pusher, and ConflictError if the rollout does not wait, or waits with another plan.
    """
    name, gates = checked_name(by, "approve a rollout"), rollout.gates
    which = f"cannot approve rollout {rollout.id[:8]}"
    if gates is None or not rollout.is_waiting:
        raise ConflictError(f"{which}: it is {rollout.status}, and does not wait")
    if not plan_hash:
        raise InvalidInputError(
            f"{which}: name the plan that you approve, PlanHash; `orchgit rollout status "
            f"{rollout.id[:8]}` shows it"
        )
    if not rollout.plan_hash.startswith(plan_hash) or len(plan_hash) < 8:
        raise ConflictError(
            f"{which}: its plan is {rollout.plan_hash[:12]}, not {plan_hash[:12]}; look at "
            f"`orchgit rollout status {rollout.id[:8]}` again"
        )
    if not gates.approvals_needed:
        raise ConflictError(f"{which}: it needs no approval; {rollout.status_description}")
    if not gates.pusher_may_approve and _is_own(rollout, name):
        raise RefusedError(
            f"{which}: {name} wrote or pushed its commit, and another person has to approve it; "
            f"`orchgit source set {rollout.source} -pusher-may-approve` counts that approval too"
        )
    others = [each for each in gates.approvals if _folded(each.by) != _folded(name)]
    approval = Approval(name, rollout.plan_hash, now_ns)
    record = replace(gates, approvals=[*others, approval])
    reason = approval_reason(record, rollout.plan_hash)
    record.decisions = [
        replace(each, reason=reason) if each.gate == GateKind.APPROVAL else each
        for each in gates.decisions
    ]
    # Whether the gate is open now is for the loop that looks at all gates.
    description = "; ".join(each.reason for each in record.decisions if not each.is_open)
    return replace(rollout, gates=record, status_description=description)


def checked_name(by: str, purpose: str) -> str:
    """Returns the name that a person claims. Raises InvalidInputError for none or a long one."""
    name = " ".join(by.split())
    if not name or len(name) > MAX_NAME_LENGTH:
        raise InvalidInputError(
            f"cannot {purpose} without knowing who asks: give your name, of at most "
            f"{MAX_NAME_LENGTH} characters (By; `-by NAME` or ORCHGIT_USER)"
        )
    return name


def checked_reason(reason: str, purpose: str) -> str:
    """Returns the reason that a person gives. Raises InvalidInputError for none or a long one."""
    text = " ".join(reason.split())
    if not text or len(text) > MAX_REASON_LENGTH:
        raise InvalidInputError(
            f"cannot {purpose} without a reason: give one of at most {MAX_REASON_LENGTH} characters"
        )
    return text


def _is_own(rollout: Rollout, name: str) -> bool:
    """Returns whether a person of that name wrote or pushed the commit. Who had a remote checked
    did neither."""
    commit = rollout.commit
    pusher = rollout.pusher if rollout.trigger != "api" else ""
    own = (pusher, commit.author, commit.email, commit.email.partition("@")[0])
    return _folded(name) in {_folded(each) for each in own if each}


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()


def approval_reason(gates: RolloutGates, plan_hash: str) -> str:
    """Returns why the approvals of a rollout suffice for this plan, or do not."""
    valid = valid_approvals(gates.approvals, plan_hash)
    lapsed = [each for each in gates.approvals if each.plan_hash != plan_hash]
    names = ", ".join(each.by for each in valid)
    count = f"{len(valid)} of {gates.approvals_needed} approvals"
    text = f"{count} ({names})" if names else count
    if lapsed:
        text += f"; the plan changed after {', '.join(each.by for each in lapsed)} approved it"
    return text
