"""Which allocations leave a draining node now. Pure.

Service groups move a few at a time (`migrate.max_parallel`), counted over the whole job, so that
draining many nodes at once takes no more of it away than draining one. Batch work is left to finish
until the drain's deadline. System jobs stay until everything else has gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.base import ns_of_datetime
from orchgit.model.group import MigrateStrategy, TaskGroup
from orchgit.model.job import JobType
from orchgit.model.node import DrainStrategy

SYSTEM_TYPES = (JobType.SYSTEM, JobType.SYSBATCH)


@dataclass(frozen=True)
class NodeDrain:
    """`remaining`: what must still leave, all of it. `is_forced`: leave at once."""

    remaining: tuple[Allocation, ...]
    is_forced: bool
    deadline_ns: int | None

    @property
    def is_done(self) -> bool:
        return not self.remaining


def node_drain(
    strategy: DrainStrategy, allocations: Sequence[Allocation], now_ns: int
) -> NodeDrain:
    """Where one node's drain stands; `allocations` are all of the node."""
    deadline_ns = (
        ns_of_datetime(strategy.force_deadline) if strategy.force_deadline is not None else None
    )
    forced = strategy.deadline_ns < 0 or (deadline_ns is not None and deadline_ns <= now_ns)
    live = [held for held in allocations if not held.is_client_terminal]
    if strategy.ignore_system_jobs:
        live = [held for held in live if held.job_type not in SYSTEM_TYPES]
    return NodeDrain(tuple(live), forced, None if forced else deadline_ns)


def leave_now(drain: NodeDrain) -> list[Allocation]:
    """What a node's drain asks to leave whatever the groups' strategies say."""
    movable = [held for held in drain.remaining if _may_be_marked(held)]
    if drain.is_forced:
        return movable
    if all(held.job_type in SYSTEM_TYPES for held in drain.remaining):
        return movable
    return []


def next_of_group(
    group: TaskGroup, of_group: Sequence[Allocation], draining: frozenset[str]
) -> list[Allocation]:
    """Allocations of one service group that may leave draining nodes now.

    `of_group` are all of the group's allocations. As many may be missing as `max_parallel` says;
    those marked already and those not healthy yet count as missing.
    """
    strategy = group.migrate or MigrateStrategy()
    live = [held for held in of_group if not held.is_terminal]
    healthy = sum(_is_healthy(held) and not held.desired_transition.migrate for held in live)
    may_leave = healthy - (group.count - strategy.max_parallel)
    candidates = [held for held in live if held.node_id in draining and _may_be_marked(held)]
    # An allocation that is not healthy serves nobody: moving it takes nothing away.
    idle = [held for held in candidates if not _is_healthy(held)]
    busy = [held for held in candidates if _is_healthy(held)]
    return (idle + busy)[: max(0, may_leave)]


def _may_be_marked(allocation: Allocation) -> bool:
    return not allocation.is_terminal and not allocation.desired_transition.migrate


def _is_healthy(allocation: Allocation) -> bool:
    """As its agent judged it; where none judges (no deployment), running is all there is."""
    status = allocation.deployment_status
    if status is not None and status.healthy is not None:
        return status.healthy
    return not allocation.deployment_id and allocation.client_status == ClientStatus.RUNNING
