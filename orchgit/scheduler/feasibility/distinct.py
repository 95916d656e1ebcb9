"""The distinct_hosts and distinct_property checks, which depend on the placements of the plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from orchgit.model.constraint import Constraint
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.scheduler.feasibility.checks import group_constraints, values_of
from orchgit.scheduler.feasibility.operands import DISTINCT_HOSTS, DISTINCT_PROPERTY, TRUE_WORDS
from orchgit.scheduler.ports import NodeColumns
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.whole_number import whole_number


class RowCheck(Protocol):
    """A check of one node that depends on the plan or the allocation, so it cannot be a cached
    mask."""

    @property
    def frees_others(self) -> bool:
        """Whether stopping an allocation on one node can make another node pass."""
        ...

    def refused(self, row: int, alloc_name: str) -> str:
        """Returns why the node cannot take the allocation; empty if it can."""
        ...

    def add(self, row: int, group: str, change: int) -> None:
        """Records that the plan placed (`change` 1) or stopped (-1) an allocation of the job."""
        ...


class DistinctHosts:
    """Allows one allocation of the job (or of the group, if `group` is set) per node."""

    frees_others = False

    def __init__(self, proposed: Proposed, group: str = "") -> None:
        self._counts = proposed.counts
        self._group = group

    def refused(self, row: int, alloc_name: str) -> str:
        groups = [self._group] if self._group else list(self._counts)
        taken = any(self._counts[group].get(row, 0) > 0 for group in groups)
        return DISTINCT_HOSTS if taken else ""

    def add(self, row: int, group: str, change: int) -> None:
        """Does nothing: `Proposed` counts the allocations."""


class DistinctProperty:
    """Allows `limit` allocations of the job (or group) on the nodes that share a value of the
    property."""

    frees_others = True

    def __init__(
        self, columns: NodeColumns, constraint: Constraint, rows: Iterable[int], group: str = ""
    ) -> None:
        self._target = constraint.l_target
        self._codes, self._values = values_of(columns, constraint.l_target)
        self._group = group
        self._problem = ""
        self._limit = 1
        if constraint.r_target:
            limit = whole_number(constraint.r_target)
            if limit is not None and limit >= 0:
                self._limit = limit
            else:
                self._problem = (
                    f'failed to convert RTarget "{constraint.r_target}" to uint64: '
                    f'strconv.ParseUint: parsing "{constraint.r_target}": invalid syntax'
                )
        self._counts = [0] * len(self._values)
        for row in rows:
            self._counts[self._codes[row]] += 1

    def refused(self, row: int, alloc_name: str) -> str:
        if self._problem:
            return self._problem
        code = self._codes[row]
        if self._values[code] is None:
            return f'missing property "{self._target}"'
        used = self._counts[code]
        if used < self._limit:
            return ""
        return f"distinct_property: {self._target}={self._values[code]} used by {used} allocs"

    def add(self, row: int, group: str, change: int) -> None:
        if self._group in ("", group):
            self._counts[self._codes[row]] += change


def distinct_checks(
    proposed: Proposed, job: Job, group: TaskGroup, rows_of: dict[str, list[int]]
) -> list[RowCheck]:
    """Returns the distinct checks of a group; `rows_of` maps a group to the rows of the job's live
    allocations."""
    checks: list[RowCheck] = []
    job_constraints, own = list(job.constraints or ()), group_constraints(group)
    if any(_wants_distinct_hosts(c) for c in job_constraints):
        checks.append(DistinctHosts(proposed))
    elif any(_wants_distinct_hosts(c) for c in own):
        checks.append(DistinctHosts(proposed, group.name))
    columns = proposed.columns
    everywhere = [row for rows in rows_of.values() for row in rows]
    checks += [
        DistinctProperty(columns, constraint, everywhere)
        for constraint in job_constraints
        if constraint.operand == DISTINCT_PROPERTY
    ]
    checks += [
        DistinctProperty(columns, constraint, rows_of.get(group.name, []), group.name)
        for constraint in own
        if constraint.operand == DISTINCT_PROPERTY
    ]
    return checks


def _wants_distinct_hosts(constraint: Constraint) -> bool:
    """Returns whether the constraint demands distinct hosts: an empty value or a true one."""
    return constraint.operand == DISTINCT_HOSTS and constraint.r_target in ("", *TRUE_WORDS)
