"""The allocations of one job, with the steady ones reduced to what a scheduler reads of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation


@dataclass(slots=True)
class SteadyGroup:
    """The steady allocations of one group: one item per allocation in both lists."""

    name_indexes: list[int] = field(default_factory=list)
    node_ids: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.node_ids)


@dataclass(slots=True)
class JobAllocations:
    """All allocations of a job.

    A steady allocation should run and is pending or running; it has the job's current version, is
    no canary, is on an untainted node, is not to be migrated and was never disconnected. The
    `others` are read whole; a steady one may be among them.
    """

    others: list[Allocation]
    steady: Mapping[str, SteadyGroup] = field(default_factory=dict)
    """By group."""
