"""A fit report as text: the numbers of each job, what is blocked and why, the room left. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from orchgit.model.fit import Capacity, FitReport, GroupFit, JobFit
from orchgit.model.rollout import JobAction

SIGNS: Mapping[str, str] = {JobAction.CREATE: "+", JobAction.UPDATE: "~", JobAction.DELETE: "-"}
JobKey = tuple[str, str]

_MAX_REASONS = 3
_MAX_PREEMPTED = 20
_MAX_IDS = 5
_MAX_CAPACITIES = 50
_NUMBERS = (2, 4, 5, 6, 7)
"""The columns of `CAPACITY_HEADER` that hold numbers."""


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
    if first := sum(group.first_blocked for group in groups):
        parts.append(f"{first} blocked at first")
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
            what = f"{group.first_blocked} blocked at first, beside the allocations that run"
        reasons = ", ".join(each.text for each in group.ruled_out[:_MAX_REASONS])
        yield f"group {group.name}: {what}" + (f": {reasons}" if reasons else "")


def verdict_text(fit: FitReport) -> str:
    """Returns one sentence: whether everything fits, and if not, what is missing."""
    if fit.error:
        return f"Unknown whether it fits: {fit.error}"
    wanted = sum(group.wanted for group in fit.groups)
    causes = []
    if blocked := sum(group.blocked for group in fit.groups):
        causes.append(f"{blocked} of {wanted} new allocations find no node")
    if first := sum(group.first_blocked for group in fit.groups):
        causes.append(f"{first} of a first step find no node beside the allocations that run")
    if unqualified := sum(group.no_node_qualifies for group in fit.groups):
        causes.append(f"no node qualifies for {unqualified} group{'s' * (unqualified != 1)}")
    left_out = f"{fit.not_planned} job{'s' * (fit.not_planned != 1)} not planned: no time left"
    if causes:
        return f"Does not fit: {'; '.join([*causes, left_out] if fit.not_planned else causes)}"
    if fit.not_planned:
        return f"Unknown whether it fits: {left_out}"
    if not wanted:
        return "Fits: no new allocation is needed"
    return f"Fits: {wanted} of {wanted} new allocations find a node"


def fit_lines(fit: FitReport, actions: Mapping[JobKey, str], columns: int = 80) -> Iterable[str]:
    """Yields the whole report in lines of at most `columns` characters; names and ids are never
    cut, and run over. `actions` are create, update or delete, by job."""
    yield from _wrapped(verdict_text(fit), "", columns)
    for job in fit.jobs:
        sign = SIGNS.get(actions.get((job.namespace, job.job_id), ""), " ")
        yield from _wrapped(f"{sign} {name_of(job)}: {job_text(job)}", "  ", columns)
        for line in blocked_lines(job):
            yield from _wrapped(line, "      ", columns)
    for line in preempted_lines(fit):
        yield from _wrapped(line, "  ", columns)
    if fit.capacity:
        yield ""
        yield from _aligned(capacity_rows(fit.capacity))


def name_of(job: JobFit) -> str:
    """Returns the job's id, with its namespace if that is not `default`."""
    return job.job_id if job.namespace == "default" else f"{job.namespace}/{job.job_id}"


def preempted_lines(fit: FitReport) -> Iterable[str]:
    """Yields a line for each job that loses allocations to one of the change."""
    lost: dict[tuple[str, str], list[str]] = {}
    for each in fit.preempted:
        lost.setdefault((each.job_id, each.preempted_by), []).append(each.alloc_id[:8])
    for (job_id, preempted_by), ids in list(lost.items())[:_MAX_PREEMPTED]:
        more = ", ..." if len(ids) > _MAX_IDS else ""
        yield (
            f"! {job_id}: {len(ids)} preempted by {preempted_by} "
            f"({', '.join(ids[:_MAX_IDS])}{more})"
        )
    if len(lost) > _MAX_PREEMPTED:
        yield f"! and of {len(lost) - _MAX_PREEMPTED} more jobs"


CAPACITY_HEADER = ("Pool", "Datacenter", "Nodes", "Resource", "Total", "Before", "After", "Largest")


def capacity_rows(capacity: Sequence[Capacity]) -> list[tuple[str, ...]]:
    """Returns the header and three rows for each pool and datacenter: what is free of cpu (MHz),
    memory and disk (MiB), before and after, and the most on one node after."""
    rows: list[tuple[str, ...]] = [CAPACITY_HEADER]
    for each in capacity[:_MAX_CAPACITIES]:
        rooms = (each.total, each.free_before, each.free_after, each.largest_free)
        for name, values in (
            ("cpu MHz", [room.cpu for room in rooms]),
            ("memory MiB", [room.memory_mb for room in rooms]),
            ("disk MiB", [room.disk_mb for room in rooms]),
        ):
            place = (each.node_pool, each.datacenter, str(each.nodes))
            rows.append((*place, name, *map(str, values)))
    return rows


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if at in _NUMBERS else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _wrapped(text: str, indent: str, columns: int) -> list[str]:
    return textwrap.wrap(
        text,
        columns,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
