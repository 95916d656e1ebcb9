"""Pure rules that decide which allocations leave a draining node now.

Service groups move a few at a time (`migrate.max_parallel`), counted over the whole job, so that
draining many nodes at once takes no more of it away than draining one. Batch work, that which runs
on every node too, is left to finish until the drain's deadline. System jobs stay until everything
else has gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchgit.model.allocation import Allocation
from orchgit.model.base import ns_of_datetime
from orchgit.model.group import MigrateStrategy, TaskGroup
from orchgit.model.job import JobType
from orchgit.model.node import DrainStrategy


@dataclass(frozen=True)
class NodeDrain:
    """The state of one node's drain. `remaining` are the allocations that must still leave;
    `is_forced` makes them leave at once; `is_late` says that the drain's deadline has passed."""

    remaining: tuple[Allocation, ...]
    is_forced: bool
    deadline_ns: int | None
    is_late: bool = False

    @property
    def is_done(self) -> bool:
        return not self.remaining


def node_drain(
    strategy: DrainStrategy, allocations: Sequence[Allocation], now_ns: int
) -> NodeDrain:
    """Returns the state of one node's drain; `allocations` are all of the node."""
    deadline_ns = (
        ns_of_datetime(strategy.force_deadline) if strategy.force_deadline is not None else None
    )
    late = deadline_ns is not None and deadline_ns <= now_ns
    forced = strategy.deadline_ns < 0 or late
    live = [held for held in allocations if not held.is_client_terminal]
    if strategy.ignore_system_jobs:
        live = [held for held in live if held.job_type != JobType.SYSTEM]
    return NodeDrain(tuple(live), forced, None if forced else deadline_ns, late)


def leave_now(drain: NodeDrain) -> list[Allocation]:
    """Returns the allocations that leave regardless of their groups' migrate strategies: all if the
    drain is forced, or if only system jobs remain."""
    movable = [held for held in drain.remaining if _may_be_marked(held)]
    if drain.is_forced:
        return movable
    if all(held.job_type == JobType.SYSTEM for held in drain.remaining):
        return movable
    return []


def next_of_group(
    group: TaskGroup, of_group: Sequence[Allocation], draining: frozenset[str], now_ns: int
) -> list[Allocation]:
    """Returns the allocations of one service group that may leave draining nodes now.

    `of_group` are all of the group's allocations. As many may be missing as `max_parallel` says;
    those marked already and those whose health is not known yet count as missing.
    """
    strategy = group.migrate or MigrateStrategy()
    live = [held for held in of_group if not held.is_terminal]
    settled = sum(
        settled_at_ns(held, strategy) <= now_ns and not held.desired_transition.migrate
        for held in live
    )
    may_leave = settled - (group.count - strategy.max_parallel)
    candidates = [held for held in live if held.node_id in draining and _may_be_marked(held)]
    # An allocation that is not healthy serves nobody: moving it takes the least away.
    candidates.sort(key=_is_healthy)
    return candidates[: max(0, may_leave)]


def settled_at_ns(allocation: Allocation, strategy: MigrateStrategy) -> int:
    """Returns when this allocation stops delaying the next one: 0 once its agent reported its
    health, else its healthy deadline."""
    status = allocation.deployment_status
    if status is not None and status.healthy is not None:
        return 0
    return allocation.create_time_ns + strategy.healthy_deadline_ns


def _may_be_marked(allocation: Allocation) -> bool:
    return not allocation.is_terminal and not allocation.desired_transition.migrate


def _is_healthy(allocation: Allocation) -> bool:
    return allocation.deployment_status is not None and allocation.deployment_status.healthy is True
