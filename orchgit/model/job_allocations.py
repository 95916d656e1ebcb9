"""Allocations that do what is wanted of them, told by what a scheduler asks of such ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation


@dataclass(slots=True)
class SteadyGroup:
    """One entry per allocation in both lists, in the same order."""

    name_indexes: list[int] = field(default_factory=list)
    node_ids: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.node_ids)


@dataclass(slots=True)
class JobAllocations:
    """All allocations of a job. The steady ones are wanted to run and pending or running, of the
    job's current version, no canaries, on nodes that are up and do not drain; nobody asked for
    their move and they were never out of touch. The `others` come whole; any steady one may be
    among them too, when telling it apart is not worth it."""

    others: list[Allocation]
    steady: Mapping[str, SteadyGroup] = field(default_factory=dict)
    """By group."""
