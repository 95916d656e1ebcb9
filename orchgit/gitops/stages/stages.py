"""The stages of a commit: which of its changes are applied together, and what each waits for. Pure.

A job's stage is the length of the longest way to it over jobs that it has to wait for: those that
the commit changes too, and those that are registered and do not meet the condition now. The stages
of hooks follow from the graph; deletions come after everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from orchgit.gitops.parsing.desired import JobKey
from orchgit.gitops.rollouts.waiting import EVERY_JOB_BEFORE
from orchgit.gitops.stages.graph import Edge, JobGraph
from orchgit.model.repository_policy import WaitCondition
from orchgit.model.rollout import JobWait

IsMet = Callable[[JobKey, WaitCondition], bool]
"""Whether a registered job that the commit leaves as it is meets the condition now."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stage of each job that is not in the first one, and what it waits for. `must_complete`
    are jobs that are healthy only when their work is done."""

    numbers: Mapping[JobKey, int] = field(default_factory=dict)
    waits: Mapping[JobKey, tuple[JobWait, ...]] = field(default_factory=dict)
    must_complete: frozenset[JobKey] = frozenset()

    def of(self, key: JobKey) -> int:
        """Returns the job's stage; the first one is 0."""
        return self.numbers.get(key, 0)

    @property
    def last(self) -> int:
        return max(self.numbers.values(), default=0)


ONE_STAGE = Stages()


def plan_stages(
    graph: JobGraph, changed: Iterable[JobKey], deleted: Collection[JobKey], is_met: IsMet
) -> Stages:
    """Returns the stages of a commit that creates or updates the jobs of `changed`. The graph has
    no cycle."""
    changes = set(changed)
    edges = {
        key: [
            edge
            for edge in graph.dependencies(key)
            if edge.dependency in changes or not is_met(edge.dependency, edge.condition)
        ]
        for key in changes
    }
    post_hooks = changes & graph.post_hooks
    levels = _levels({key: edges[key] for key in changes - post_hooks}, {}, 0)
    after_all = max((level + 1 for level in levels.values()), default=0)
    levels |= _levels({key: edges[key] for key in post_hooks}, levels, after_all)
    numbers = {key: levels[key] for key in changes if levels[key]}
    waits = {key: tuple(_wait(edge) for edge in edges[key]) for key in changes if edges[key]}
    if after_all:
        for key in post_hooks:
            covered = changes - post_hooks
            others = [_wait(edge) for edge in edges[key] if edge.dependency not in covered]
            waits[key] = (EVERY_JOB_BEFORE, *others)
    last = max(numbers.values(), default=0)
    if last:
        for key in deleted:
            numbers[key] = last + 1
            waits[key] = (EVERY_JOB_BEFORE,)
    return Stages(numbers, waits, graph.completing & changes)


def _wait(edge: Edge) -> JobWait:
    namespace, job_id = edge.dependency
    return JobWait(namespace, job_id, edge.condition)


def _levels(
    edges: Mapping[JobKey, list[Edge]], known: Mapping[JobKey, int], least: int
) -> dict[JobKey, int]:
    """Returns the longest way to each job, but at least `least`; `known` are the levels of other
    jobs. A dependency that does not change is at level 0."""
    levels = dict(known)
    for start in edges:
        stack = [start]
        while stack:
            key = stack[-1]
            dependencies = [edge.dependency for edge in edges.get(key, ())]
            missing = [each for each in dependencies if each not in levels]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            lowest = least if key in edges else 0
            levels[key] = max((levels[each] + 1 for each in dependencies), default=0)
            levels[key] = max(levels[key], lowest)
    return levels
