"""Per group of a job: what it asks, the checks it makes, and the selector that ranks its nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from orchgit.model.allocation import Allocation
from orchgit.model.constraint import Affinity
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job, JobType
from orchgit.model.node import Node
from orchgit.model.volume import VolumeRequest
from orchgit.scheduler.feasibility.checks import (
    GROUP,
    JOB,
    Check,
    candidate_mask,
    constraint_mask,
    escapes,
    group_checks,
    group_constraints,
    has_csi,
    job_checks,
)
from orchgit.scheduler.feasibility.distinct import distinct_checks
from orchgit.scheduler.feasibility.eligibility import ClassEligibility
from orchgit.scheduler.feasibility.operands import DISTINCT_HOSTS, DISTINCT_PROPERTY
from orchgit.scheduler.feasibility.volumes import (
    CsiVolumeCheck,
    HostVolumeCheck,
    StickyClaims,
    VolumeCheck,
    csi_requests,
    host_requests,
    is_sticky,
)
from orchgit.scheduler.outcome import EligibleClasses
from orchgit.scheduler.placement.candidates import Candidates
from orchgit.scheduler.placement.quota import QuotaUse
from orchgit.scheduler.ports import ClusterView, Mask, NodeColumns
from orchgit.scheduler.ranking.anti_affinity import AntiAffinity
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.ranking.required_resources import RequiredResources
from orchgit.scheduler.ranking.selector import Ranking, Scores, Selector
from orchgit.scheduler.ranking.spread import SpreadScore
from orchgit.scheduler.ranking.tie_break import TieBreak


class GroupStack:
    """One group of one job version. What it asks and checks is worked out when somebody wants to
    know: where there is no node, nobody does."""

    def __init__(
        self,
        columns: NodeColumns,
        job: Job,
        group: TaskGroup,
        *,
        oversubscription: bool,
        numa: bool,
    ) -> None:
        self.job = job
        self.group = group
        self.selector: Selector | None = None
        self.has_volumes = bool(group.volumes)
        self.is_sticky = self.has_volumes and is_sticky(group)
        self._columns = columns
        self._oversubscription = oversubscription
        self._numa = numa

    @cached_property
    def ask(self) -> RequiredResources:
        return RequiredResources(
            self.group, oversubscription=self._oversubscription, numa=self._numa
        )

    @cached_property
    def checks(self) -> list[Check]:
        return job_checks(self._columns, self.job) + group_checks(self._columns, self.group)

    @property
    def has_row_checks(self) -> bool:
        """Whether what else is placed decides which nodes may take it."""
        constraints = [*(self.job.constraints or ()), *group_constraints(self.group)]
        return self.has_volumes or any(
            c.operand in (DISTINCT_HOSTS, DISTINCT_PROPERTY) for c in constraints
        )

    def feasible(self, candidates: Mask) -> Mask:
        mask = candidates.copy()
        for check in self.checks:
            mask &= check.mask
        return mask


class Stacks:
    """Makes and keeps the stacks of one evaluation, and tells all of them what the plan does."""

    def __init__(
        self,
        view: ClusterView,
        job: Job,
        proposed: Proposed,
        allocations: Iterable[Allocation],
        seed: int,
    ) -> None:
        self.view = view
        self.job = job
        self.proposed = proposed
        self.columns: NodeColumns = view.columns
        self.tie_break = TieBreak(self.columns, seed)
        self.eligibility = ClassEligibility(self.columns)
        self.claims = _sticky_claims(view, job, allocations)
        room = view.quota(job.namespace)
        self.quota = QuotaUse(room) if room is not None else None
        self._allocations = list(allocations)
        self._config = view.scheduler_config()
        self._stacks: dict[tuple[int, str], GroupStack] = {}
        self._followers: list[Selector] = []
        self._history: list[tuple[int, str, int]] = []
        """(row, group, +1 or -1) of everything the plan did to the job's live allocations."""
        self._known_namesakes: Sequence[tuple[str, str]] | None = None
        self._requests: dict[tuple[str, str, int, str], list[VolumeRequest]] = {}

    @cached_property
    def candidate_mask(self) -> Mask:
        return candidate_mask(self.columns, self.job)

    @cached_property
    def candidates(self) -> Candidates:
        return Candidates.of(self.columns, self.job, self.candidate_mask)

    def of(self, job: Job, group: TaskGroup) -> GroupStack:
        key = (job.version, group.name)
        stack = self._stacks.get(key)
        if stack is None:
            group = job.group(group.name) or group
            stack = self._stacks[key] = GroupStack(
                self.columns,
                job,
                group,
                oversubscription=self._oversubscription(job),
                numa=self._config.numa_enabled,
            )
            if escapes(job.constraints or []):
                self.eligibility.escape(JOB)
            if escapes(group_constraints(group)) or has_csi(group):
                self.eligibility.escape(f"{GROUP} {group.name}")
        return stack

    def selector(self, stack: GroupStack) -> Selector:
        if stack.selector is None:
            stack.selector = Selector(
                self.proposed,
                stack.ask,
                stack.feasible(self.candidate_mask),
                self._ranking(stack),
                self.tie_break,
            )
            if stack.selector.follows_changes:
                self._followers.append(stack.selector)
                for row, name, change in self._history:
                    stack.selector.changed(row, name, change)
        return stack.selector

    def find_eligible_classes(self) -> EligibleClasses:
        """Which classes can take the groups that were looked at, for a blocked evaluation."""
        if self.eligibility.has_escaped:
            return True, None
        for stack in self._stacks.values() if len(self.candidates.rows) else ():
            self.eligibility.filter(self.candidates.rows, stack.group.name, stack.checks)
        return False, self.eligibility.class_eligibility()

    def _pool_config(self, job: Job) -> Mapping[str, Any]:
        """What the job's pool sets for its own scheduling."""
        pool = self.view.node_pool(job.node_pool)
        return (pool.scheduler_configuration if pool is not None else None) or {}

    def _oversubscription(self, job: Job) -> bool:
        value = self._pool_config(job).get("MemoryOversubscriptionEnabled")
        return self._config.memory_oversubscription_enabled if value is None else bool(value)

    def _ranking(self, stack: GroupStack) -> Ranking:
        job, group = stack.job, stack.group
        for_system = job.type in (JobType.SYSTEM, JobType.SYSBATCH)
        live: dict[str, list[int]] = defaultdict(list)
        for allocation in self._allocations:
            row = self.columns.rows.get(allocation.node_id)
            if row is not None and not allocation.is_terminal:
                live[allocation.task_group].append(row)
        for name, rows in self.proposed.steady_rows.items():
            live[name] += rows
        own = self._pool_config(job).get("SchedulerAlgorithm")
        algorithm = own or self._config.scheduler_algorithm
        ranking = Ranking(
            spread_algorithm=algorithm == "spread",
            anti_affinity=None if for_system else self._anti_affinity(group),
            row_checks=distinct_checks(self.proposed, job, group, live),
        )
        if host_requests(group) or csi_requests(group):
            ranking.row_checks.append(self._volume_check(stack))
            ranking.scan_only = True
        if not for_system:
            ranking.affinity = affinity_scores(self.columns, job, group)
            spreads = [*(group.spreads or ()), *(job.spreads or ())]
            if spreads:
                ranking.spread = SpreadScore(self.columns, spreads, group.count)
                ranking.spread.add_all(live[group.name])
        return ranking

    def _anti_affinity(self, group: TaskGroup) -> AntiAffinity:
        rows = self.columns.rows
        namesakes = Counter(
            rows[node_id]
            for name, node_id in self._namesakes()
            if name == group.name and node_id in rows
        )
        return AntiAffinity(self.proposed.counts[group.name], namesakes, group.count)

    def _namesakes(self) -> Sequence[tuple[str, str]]:
        if self._known_namesakes is None:
            self._known_namesakes = self.view.namesakes(self.job.namespace, self.job.id)
        return self._known_namesakes

    def _volume_check(self, stack: GroupStack) -> VolumeCheck:
        host = csi = None
        if host_requests(stack.group):
            host = HostVolumeCheck(
                self.view,
                stack.job.namespace,
                stack.group,
                self.claims,
                self._proposed_on,
                self._requests_of,
            )
        if csi_requests(stack.group):
            csi = CsiVolumeCheck(
                self.view, stack.job, stack.group, self._proposed_on, self._requests_of
            )
        return VolumeCheck(self.columns.nodes, host, csi)

    def _proposed_on(self, node: Node) -> list[Allocation]:
        return self.proposed.allocations_on(self.columns.rows[node.id])

    def _requests_of(self, allocation: Allocation) -> list[VolumeRequest]:
        key = (
            allocation.namespace,
            allocation.job_id,
            allocation.job_version,
            allocation.task_group,
        )
        known = self._requests.get(key)
        if known is None:
            job = self.view.job_version(*key[:3])
            group = job.group(allocation.task_group) if job is not None else None
            known = self._requests[key] = list((group.volumes or {}).values()) if group else []
        return known

    # --- what the plan does ---------------------------------------------------------------

    def stop(self, allocation: Allocation) -> None:
        self.proposed.stop(allocation)
        if self.quota is not None:
            self.quota.give_back(allocation)
        self.claims.held_by.discard(allocation.id)
        self._tell(allocation, -1)

    def unstop(self, allocation: Allocation, *, held_claim: bool) -> None:
        self.proposed.unstop(allocation)
        if self.quota is not None:
            self.quota.give_back(allocation, -1)
        if held_claim:
            self.claims.held_by.add(allocation.id)
        self._tell(allocation, 1)

    def _tell(self, allocation: Allocation, change: int) -> None:
        row = self.columns.rows.get(allocation.node_id)
        mine = (allocation.namespace, allocation.job_id) == self.proposed.job_key
        if row is not None and mine and not allocation.is_terminal:
            self._changed(row, allocation.task_group, change)

    def placed(self, row: int, group: str) -> None:
        self._changed(row, group, 1)

    def _changed(self, row: int, group: str, change: int) -> None:
        self._history.append((row, group, change))
        for selector in self._followers:
            selector.changed(row, group, change)


def _sticky_claims(view: ClusterView, job: Job, allocations: Iterable[Allocation]) -> StickyClaims:
    wants = any(host_requests(group) for group in job.task_groups)
    claims = list(view.volume_claims(job.namespace, job.id)) if wants else []
    running = {a.id for a in allocations if not a.is_terminal}
    return StickyClaims(claims, held_by={c.alloc_id for c in claims if c.alloc_id in running})


def affinity_scores(columns: NodeColumns, job: Job, group: TaskGroup) -> Scores | None:
    """Matched weight over all weight, for every node; None without affinities."""
    affinities: list[Affinity] = [*(job.affinities or ()), *(group.affinities or ())]
    for task in group.tasks:
        affinities += task.affinities or ()
    if not affinities:
        return None
    scores = np.zeros(len(columns.nodes))
    for affinity in affinities:
        matching = constraint_mask(columns, affinity.l_target, affinity.operand, affinity.r_target)
        scores += affinity.weight * matching
    return scores / (sum(abs(affinity.weight) for affinity in affinities) or 1)
