"""A fit report as text: the numbers of each job, what is blocked and why, the room left. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchgit.model.fit import FitReport, GroupFit, JobFit

_MAX_REASONS = 3


def counts_text(groups: Sequence[GroupFit]) -> str:
    """Returns text like `place 3, update 1, stop 2, keep 4, 2 of 6 blocked`, without zeros.

    The last number but one is of all new allocations that are wanted: those to place, those to
    update and those that are blocked.
    """
    named = (
        ("place", sum(group.placed for group in groups)),
        ("update", sum(group.replaced for group in groups)),
        ("update in place", sum(group.updated for group in groups)),
        ("stop", sum(group.stopped for group in groups)),
        ("keep", sum(group.kept for group in groups)),
        ("preempt", sum(group.preempted for group in groups)),
    )
    parts = [f"{verb} {count}" for verb, count in named if count]
    if blocked := sum(group.blocked for group in groups):
        parts.append(f"{blocked} of {sum(group.wanted for group in groups)} blocked")
    if canaries := sum(group.canaries_blocked for group in groups):
        parts.append(f"{canaries} canar{'y' if canaries == 1 else 'ies'} blocked")
    return ", ".join(parts)


def job_text(fit: JobFit) -> str:
    """Returns what becomes of a job in one line, with the first step of an update by steps."""
    counts = counts_text(fit.groups)
    if fit.launch_only:
        return f"launch later; one launch now would {counts or 'place nothing'}"
    first = sum(group.first for group in fit.groups)
    canaries = sum(group.canaries for group in fit.groups)
    wanted = sum(group.placed + group.replaced for group in fit.groups)
    if canaries:
        return f"{counts}; first {canaries} canar{'y' if canaries == 1 else 'ies'}"
    if 0 < first < wanted:
        return f"{counts}; first {first}"
    return counts or "no allocation changes"


def blocked_lines(fit: JobFit) -> Iterable[str]:
    """Yields a line for each group of which some allocation finds no node, with the reasons."""
    for group in fit.groups:
        if group.fits:
            continue
        what = f"{group.blocked} of {group.wanted} blocked"
        if group.no_node_qualifies:
            what = "no node qualifies"
        elif not group.blocked:
            what = f"{group.canaries_blocked} blocked beside the allocations that run"
        reasons = ", ".join(each.text for each in group.ruled_out[:_MAX_REASONS])
        yield f"group {group.name}: {what}" + (f": {reasons}" if reasons else "")


def verdict_text(fit: FitReport) -> str:
    """Returns one sentence: whether everything fits, and if not, what is missing."""
    if fit.error:
        return f"Nobody knows whether it fits: {fit.error}"
    wanted = sum(group.wanted for group in fit.groups)
    canaries = sum(group.canaries_blocked for group in fit.groups)
    causes = []
    if fit.blocked:
        causes.append(f"{fit.blocked} of {wanted + canaries} new allocations find no node")
    if unqualified := sum(group.no_node_qualifies for group in fit.groups):
        causes.append(f"no node qualifies for {unqualified} group{'s' * (unqualified != 1)}")
    if fit.not_planned:
        some = f"{fit.not_planned} job{'s' * (fit.not_planned != 1)}"
        causes.append(f"{some} not planned, as the time for planning was over")
    if causes:
        return f"Does not fit: {'; '.join(causes)}"
    return f"Fits: {wanted} of {wanted} new allocations find a node"
