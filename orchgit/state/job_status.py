"""What the status of a job follows from: the job itself, its allocations and its evaluations."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from orchgit.model.job import JobStatus, JobType

# One statement: whether evaluations wait is asked only of a job without live allocations.
_INPUTS = """SELECT status, type, stop, parent, live, CASE WHEN live THEN 0 ELSE EXISTS (
        SELECT 1 FROM evaluations WHERE namespace = ?1 AND job_id = ?2
        AND status IN ('pending', 'blocked')) END
    FROM (SELECT status, type, stop, periodic OR parameterized AS parent, coalesce((
        SELECT sum(live) FROM job_summaries WHERE namespace = ?1 AND job_id = ?2), 0) AS live
        FROM jobs WHERE namespace = ?1 AND id = ?2)"""
_HAS_WAITING = """SELECT EXISTS (SELECT 1 FROM evaluations WHERE namespace = ? AND job_id = ?
    AND status IN ('pending', 'blocked'))"""
_HAS_PAST = """SELECT EXISTS (SELECT 1 FROM evaluations WHERE namespace = ?1 AND job_id = ?2)
    OR EXISTS (SELECT 1 FROM allocations WHERE namespace = ?1 AND job_id = ?2)"""


class StatusInputs(NamedTuple):
    """What the status of a registered job follows from, besides its evaluations and its past."""

    stored: str
    """The status that the job has."""
    fixed: str
    """The status that does not depend on the job's work; empty where it depends."""
    live: int
    """Number of allocations that are not terminal."""


def fixed_status(job_type: str, is_parent: bool, stop: bool) -> str:
    """Returns the status of a system, periodic or parameterized job; empty for all others."""
    if job_type == JobType.SYSTEM or is_parent:
        return JobStatus.DEAD if stop else JobStatus.RUNNING
    return ""


def read_inputs(
    connection: sqlite3.Connection, namespace: str, job_id: str
) -> tuple[StatusInputs | None, bool]:
    """Returns (None for a job that is not registered, whether its evaluations wait).

    The second is read only where it counts: for a job without live allocations.
    """
    row = connection.execute(_INPUTS, (namespace, job_id)).fetchone()
    if row is None:
        return None, False
    status, job_type, stop, is_parent, live, has_waiting = row
    return StatusInputs(status, fixed_status(job_type, is_parent, stop), live), bool(has_waiting)


def has_waiting_evaluations(connection: sqlite3.Connection, namespace: str, job_id: str) -> bool:
    """Whether an evaluation of the job is pending or blocked."""
    return bool(connection.execute(_HAS_WAITING, (namespace, job_id)).fetchone()[0])


def implied_status(
    connection: sqlite3.Connection,
    key: tuple[str, str],
    inputs: StatusInputs,
    has_waiting: bool,
    evaluations_purged: bool,
) -> str:
    """Returns the status that the job of (namespace, id) should have.

    `evaluations_purged`: its evaluations were garbage collected, so a job without any is dead.
    """
    if inputs.fixed:
        return inputs.fixed
    if inputs.live:
        return JobStatus.RUNNING
    if has_waiting:
        return JobStatus.PENDING
    if evaluations_purged or connection.execute(_HAS_PAST, key).fetchone()[0]:
        return JobStatus.DEAD
    return JobStatus.PENDING
