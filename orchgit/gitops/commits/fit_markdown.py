"""The plan of a commit as Markdown: the body of a comment on a pull request. Pure.

Job names, reasons and messages come from anybody who may open a pull request. Each is written as a
code span on one line, in which neither Markdown nor HTML, mentions or links have a meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchgit.gitops.commits.fit_text import (
    JobKey,
    blocked_lines,
    capacity_rows,
    job_text,
    name_of,
    preempted_lines,
    verdict_text,
)
from orchgit.model.fit import FitReport
from orchgit.printable import printable

MAX_CHARACTERS = 60_000
"""Hosts refuse longer comments: GitHub's limit is 65,536."""
_MAX_JOBS = 200
_MAX_LISTED = 50
_MAX_SPAN = 300


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """What the comment tells: `actions` are create, update or delete by job; `problems` refuse the
    commit. `fit` is None where the scheduler was not asked."""

    source: str
    actions: Mapping[JobKey, str]
    unchanged: int
    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()
    fit: FitReport | None = None
    plan_hash: str = ""


def code(text: str) -> str:
    """Returns `text` as a code span: one line, control characters visible, at most 300
    characters."""
    flat = " ".join(printable(text).split()) or " "
    if len(flat) > _MAX_SPAN:
        flat = f"{flat[:_MAX_SPAN]}..."
    # A backtick would end the span, and a bar the cell of a table: both get a look-alike.
    return f"`{flat.replace('`', chr(0x2BB)).replace('|', chr(0xA6))}`"


def comment_text(plan: PlannedCommit) -> str:
    """Returns the comment, of at most `MAX_CHARACTERS` characters: whole lines are left out at the
    end, which says how many."""
    lines = list(_lines(plan))
    size, kept = 0, []
    for at, line in enumerate(lines):
        size += len(line) + 1
        if size > MAX_CHARACTERS:
            kept += ["", f"{len(lines) - at} lines are left out."]
            break
        kept.append(line)
    return "\n".join(kept) + "\n"


def _lines(plan: PlannedCommit) -> Iterable[str]:
    yield f"### Plan for source {code(plan.source)}"
    yield ""
    if plan.problems:
        count = len(plan.problems)
        yield f"**Refused: {count} problem{'s' * (count != 1)}.** Nothing would be changed."
        yield ""
        yield from _listed(plan.problems)
        return
    if plan.fit is not None:
        verdict, _, why = verdict_text(plan.fit).partition(": ")
        yield f"**{verdict}**: {code(why)}"
        yield ""
    yield from _table_of_jobs(plan)
    if plan.fit is not None:
        yield from _details(plan.fit)
    if plan.warnings:
        yield "**Warnings**"
        yield ""
        yield from _listed(plan.warnings)
    if plan.plan_hash:
        yield f"Plan {code(plan.plan_hash[:12])}"


def _table_of_jobs(plan: PlannedCommit) -> Iterable[str]:
    fits = plan.fit.by_key if plan.fit is not None else {}
    if not plan.actions:
        yield f"No job changes; {plan.unchanged} unchanged."
        yield ""
        return
    yield "| | job | allocations |"
    yield "|---|---|---|"
    for key, action in list(plan.actions.items())[:_MAX_JOBS]:
        fit = fits.get(key)
        name = name_of(fit) if fit is not None else "/".join(key)
        yield f"| {action} | {code(name)} | {code(job_text(fit)) if fit is not None else ''} |"
    yield ""
    if len(plan.actions) > _MAX_JOBS:
        yield f"{len(plan.actions) - _MAX_JOBS} more jobs change."
        yield ""
    if plan.unchanged:
        yield f"{plan.unchanged} unchanged."
        yield ""


def _details(fit: FitReport) -> Iterable[str]:
    blocked = [f"{name_of(job)}: {line}" for job in fit.jobs for line in blocked_lines(job)]
    if blocked:
        yield "**Without a node**"
        yield ""
        yield from _listed(blocked)
    if preempted := list(preempted_lines(fit)):
        yield "**Preempted**"
        yield ""
        yield from _listed(preempted)
    if fit.capacity:
        header, *rows = capacity_rows(fit.capacity)
        yield "<details><summary>Free capacity</summary>"
        yield ""
        yield f"| {' | '.join(header)} |"
        yield f"|{'---|' * len(header)}"
        for row in rows:
            yield f"| {' | '.join(code(cell) for cell in row)} |"
        yield ""
        yield "</details>"
        yield ""


def _listed(lines: Sequence[str]) -> Iterable[str]:
    yield from (f"- {code(line)}" for line in lines[:_MAX_LISTED])
    if len(lines) > _MAX_LISTED:
        yield f"- and {len(lines) - _MAX_LISTED} more"
    yield ""
