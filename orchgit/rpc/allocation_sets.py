"""Which allocations a node is told of: a pure reading of one snapshot.

Sets, at the beginning of a session: of what the agent says it runs, the node keeps what is wanted;
the rest is delivered as ended, or is missing from `wanted`, and the agent stops both. What else
belongs to the node is delivered too. Later in the session only what changed is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from orchgit.model.allocation import TERMINAL_CLIENT_STATUSES, Allocation
from orchgit.model.job import Job
from orchgit.state.snapshot import Snapshot
from orchgit.wire.messages import AllocDelivery, AllocReport, AllocSet


def still_runs(reports: Iterable[AllocReport]) -> frozenset[str]:
    """The allocations that the agent has not ended."""
    return frozenset(
        one.alloc_id for one in reports if one.client_status not in TERMINAL_CLIENT_STATUSES
    )


def first_set(snapshot: Snapshot, node_id: str, at_work: Set[str]) -> AllocSet:
    """What begins a session with an agent that runs the allocations `at_work`: an allocation that
    the servers call ended is left out only if the agent has ended it too."""
    held = snapshot.allocations.of_node_changed_since(node_id, 0)
    told = [one for one in held if not one.is_client_terminal or one.id in at_work]
    return _set_of(snapshot, node_id, told)


def changed_set(snapshot: Snapshot, node_id: str, since_index: int) -> AllocSet:
    """What the servers changed after `since_index`."""
    return _set_of(
        snapshot, node_id, snapshot.allocations.of_node_changed_since(node_id, since_index)
    )


def _set_of(snapshot: Snapshot, node_id: str, told: list[Allocation]) -> AllocSet:
    changed: list[AllocDelivery] = []
    jobless: list[Allocation] = []
    jobs: dict[tuple[str, str, int, int], Job | None] = {}
    for held in told:
        key = (held.namespace, held.job_id, held.job_version, held.create_index)
        if key not in jobs:
            jobs[key] = snapshot.job_versions.of_allocation(held)
        job = jobs[key]
        if job is not None:
            changed.append(AllocDelivery(alloc=held, job=job))
        elif held.is_terminal:
            jobless.append(held)
    return AllocSet(
        index=snapshot.index,
        changed=changed,
        wanted=snapshot.allocations.ids_of_node(node_id),
        jobless=jobless,
    )
