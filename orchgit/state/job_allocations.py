"""One job's allocations in one pass over their rows; steady ones are not built.

An evaluation of a large job is mostly about a few of its allocations. The others cost a fifth when
only their name and node are read.
"""

from __future__ import annotations

from collections.abc import Set
from typing import cast

import msgspec

from orchgit.model.allocation import AllocDeploymentStatus, DesiredTransition
from orchgit.model.job import Job
from orchgit.model.job_allocations import JobAllocations, SteadyGroup
from orchgit.state.snapshot import StateReads

_SCAN = """SELECT row, task_group, name_index, node_id, body, job_version = ?
    AND desired_status = 'run' AND client_status IN ('running', 'pending')
    FROM allocations WHERE namespace = ? AND job_id = ?"""
_Row = tuple[int, str, int, str, bytes | None, int]


class _SteadinessFields(msgspec.Struct):
    """The fields of an `AllocBody` that can make an allocation unsteady; the rest is skipped."""

    desired_transition: DesiredTransition | None = None
    alloc_states: list[msgspec.Raw] | None = None
    deployment_status: AllocDeploymentStatus | None = None


_FIELDS = msgspec.msgpack.Decoder(_SteadinessFields)
_NO_TRANSITION = DesiredTransition()


def job_allocations(reads: StateReads, job: Job, untainted_nodes: Set[str]) -> JobAllocations:
    """Returns all allocations of the job.

    `untainted_nodes` are the ids of the nodes that are up and do not drain.
    """
    values = (job.version, job.namespace, job.id)
    rows = cast(list[_Row], reads.connection.execute(_SCAN, values).fetchall())
    if not rows:
        return JobAllocations([])
    steady = {group.name: SteadyGroup() for group in job.task_groups}
    others: list[int] = []
    for row, group, name_index, node_id, body, runs in rows:
        if runs and node_id in untainted_nodes and group in steady and not _is_marked(body):
            found = steady[group]
            found.name_indexes.append(name_index)
            found.node_ids.append(node_id)
        else:
            others.append(row)
    if 2 * len(others) > len(rows):
        return JobAllocations(reads.allocations.of_job(job.namespace, job.id))
    return JobAllocations(reads.allocations.of_rows(others) if others else [], steady)


def _is_marked(body: bytes | None) -> bool:
    """Whether the allocation is a canary, is to be moved, or was out of touch once."""
    if body is None:
        return False
    fields = _FIELDS.decode(body)
    return bool(
        fields.alloc_states
        or (fields.desired_transition or _NO_TRANSITION) != _NO_TRANSITION
        or (fields.deployment_status is not None and fields.deployment_status.canary)
    )
