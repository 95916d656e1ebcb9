"""Why a placement went where it went, or nowhere: the metrics that people read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from orchgit.model.evaluation import AllocMetric, ScoreMetaData
from orchgit.model.group import TaskGroup
from orchgit.scheduler.feasibility.checks import Check, values_of
from orchgit.scheduler.feasibility.eligibility import ClassEligibility
from orchgit.scheduler.placement.candidates import Candidates
from orchgit.scheduler.placement.preemption import Eviction
from orchgit.scheduler.ports import NodeColumns, Numbers
from orchgit.scheduler.ranking.offers import NotOfferedError, offer
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.ranking.required_resources import RequiredResources
from orchgit.scheduler.ranking.selector import Request, Selector

_SCORES_KEPT = 5


@dataclass(slots=True)
class _Tally:
    """Filtered and exhausted nodes of one placement."""

    columns: NodeColumns
    filtered: dict[str, int] = field(default_factory=dict)
    exhausted: dict[str, int] = field(default_factory=dict)
    class_filtered: dict[str, int] = field(default_factory=dict)
    class_exhausted: dict[str, int] = field(default_factory=dict)

    def filter_row(self, row: int, reason: str) -> None:
        self.filter_rows(np.array([row]), {reason: 1})

    def filter_rows(self, rows: Numbers, reasons: Mapping[str, int]) -> None:
        _add_up(self.filtered, reasons)
        _add_up(self.class_filtered, self._classes(rows))

    def exhaust_rows(self, rows: Numbers, dimension: str) -> None:
        if len(rows):
            _add_up(self.exhausted, {dimension: len(rows)})
            _add_up(self.class_exhausted, self._classes(rows))

    def _classes(self, rows: Numbers) -> dict[str, int]:
        """How many of the rows have which node class; those without one are not counted."""
        codes, names = values_of(self.columns, "${node.class}")
        counts = np.bincount(codes[rows], minlength=len(names)).tolist() if len(rows) else []
        return {name: count for name, count in zip(names, counts, strict=False) if name and count}

    def write(self, metric: AllocMetric) -> None:
        metric.nodes_filtered = sum(self.filtered.values())
        metric.nodes_exhausted = sum(self.exhausted.values())
        metric.class_filtered = self.class_filtered or None
        metric.constraint_filtered = self.filtered or None
        metric.class_exhausted = self.class_exhausted or None
        metric.dimension_exhausted = self.exhausted or None


def _add_up(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


@dataclass(slots=True)
class Explainer:
    """Makes the metrics of one evaluation's placements."""

    _proposed: Proposed
    _eligibility: ClassEligibility

    def failure(
        self,
        candidates: Candidates,
        checks: list[Check],
        selector: Selector,
        request: Request,
        *,
        looked_twice: bool = False,
    ) -> AllocMetric:
        """The metric of a placement that found no node among `candidates`.

        `looked_twice`: first without evictions, then with them, when the classes of the nodes were
        known."""
        tally = _Tally(self._proposed.columns)
        group = selector.ask.group
        if looked_twice:
            self._eligibility.filter(candidates.rows, group.name, checks)
        keep, reasons, failed = self._eligibility.filter(candidates.rows, group.name, checks)
        tally.filter_rows(failed, reasons)
        self._judge_rows(candidates.rows[keep], selector, request, tally)
        metric = candidates.metric()
        tally.write(metric)
        _add_exhausted(metric, group)
        return metric

    def success(
        self,
        candidates: Candidates,
        checks: list[Check],
        selector: Selector,
        request: Request,
        chosen: int,
        evictions: Mapping[int, Eviction],
    ) -> AllocMetric:
        """The metric of a placement about to be made: what was left out and why, and the best nodes
        with all their scores. `evictions`: the nodes where there is room once others go."""
        metric = candidates.metric()
        tally = _Tally(self._proposed.columns)
        if len(selector.rows) < len(candidates.rows):
            if selector.left_out is None:
                group = selector.ask.group.name
                fresh = self._eligibility.fresh()
                _, reasons, rows = fresh.filter(candidates.rows, group, checks)
                selector.left_out = rows, reasons
            tally.filter_rows(*selector.left_out)
        scores = selector.scores(request.penalty_rows)
        fits = scores > -np.inf
        if not fits.all():
            self._judge_rows(selector.rows[~fits], selector, request, tally)
        fitting = np.flatnonzero(fits)
        order = fitting[np.argsort(-scores[fitting], kind="stable")]
        best = _best_rows(selector, selector.rows[order], request, tally)
        tally.write(metric)
        if chosen not in best and chosen not in evictions:
            best.append(chosen)
        metric.score_meta_data = [score_of_row(selector, row, request) for row in best]
        if evictions:
            ranked = [score_of_row(selector, row, request, evictions[row]) for row in evictions]
            ranked.sort(key=lambda scored: -scored.norm_score)
            metric.score_meta_data += ranked[:_SCORES_KEPT]
        return metric

    def _judge_rows(
        self, rows: Numbers, selector: Selector, request: Request, tally: _Tally
    ) -> None:
        """Tallies why the rows, which pass all checks that do not change, cannot take it."""
        ask = selector.ask
        if ask.is_plain and not ask.has_ports and not selector.ranking.row_checks:
            rows = self._judge_at_once(rows, selector, tally)
        for row in rows.tolist():
            reason = selector.refusal(row, request.name)
            if reason:
                tally.filter_row(row, reason)
            elif dimension := exhausted_dimension(self._proposed, row, ask, selector):
                tally.exhaust_rows(np.array([row]), dimension)

    def _judge_at_once(self, rows: Numbers, selector: Selector, tally: _Tally) -> Numbers:
        """Where only cpu, memory and disk are asked; returns the rows that need a closer look."""
        if not len(rows):
            return rows
        columns, ask = self._proposed.columns, selector.ask
        special = rows[:0]
        if selector.limited:
            limited = np.isin(rows, list(selector.limited))
            special, rows = rows[limited], rows[~limited]
        used = self._proposed.usage_vectors()
        capacities = (columns.cpu_capacity, columns.memory_capacity, columns.disk_capacity)
        asks = (ask.cpu, ask.memory, ask.disk)
        for dimension, held, capacity, wanted in zip(
            ("cpu", "memory", "disk"), used, capacities, asks, strict=True
        ):
            over = held[rows] + wanted > capacity[rows]
            tally.exhaust_rows(rows[over], dimension)
            rows = rows[~over]
        return special


def coalesce(metric: AllocMetric, group: TaskGroup) -> None:
    """Counts one more placement of the group that found no node, for the same reasons."""
    metric.coalesced_failures += 1
    _add_exhausted(metric, group)


def exhausted_dimension(
    proposed: Proposed, row: int, ask: RequiredResources, selector: Selector
) -> str:
    """The first thing a node has too little of; empty when it has enough."""
    if proposed.free_slots(row) < 1:
        return "max allocation exceeded"
    try:
        offered = offer(proposed, row, ask, selector.rng)
    except NotOfferedError as error:
        return str(error)
    columns = proposed.columns
    cpu, memory, disk = proposed.usage(row)
    if cpu + offered.cpu > columns.cpu_capacity[row]:
        return "cpu"
    if memory + ask.memory > columns.memory_capacity[row]:
        return "memory"
    return "disk" if disk + ask.disk > columns.disk_capacity[row] else ""


def _add_exhausted(metric: AllocMetric, group: TaskGroup) -> None:
    """Adds up what one unplaced allocation lacked, by task."""
    dimensions = metric.dimension_exhausted
    if not dimensions:
        return
    totals: dict[str, dict[str, object]] = metric.resources_exhausted or {}
    for task in group.tasks:
        known = totals.setdefault(task.name, {"CPU": 0, "MemoryMB": 0})
        if "cpu" in dimensions and not task.resources.cores:
            known["CPU"] = int(str(known["CPU"])) + task.resources.cpu
        if "memory" in dimensions:
            known["MemoryMB"] = int(str(known["MemoryMB"])) + task.resources.memory_mb
    metric.resources_exhausted = totals


def _best_rows(selector: Selector, rows: Numbers, request: Request, tally: _Tally) -> list[int]:
    """The first few that the checks of this placement let pass; the others before them are told
    as filtered."""
    if not selector.ranking.row_checks:
        return cast(list[int], rows[:_SCORES_KEPT].tolist())
    best: list[int] = []
    for row in rows.tolist():
        reason = selector.refusal(row, request.name)
        if reason:
            tally.filter_row(row, reason)
        else:
            best.append(row)
            if len(best) == _SCORES_KEPT:
                break
    return best


def success_on_row(
    candidates: Candidates,
    selector: Selector,
    request: Request,
    row: int,
    eviction: Eviction | None,
) -> AllocMetric:
    """The metric when only this one node was looked at, as for system and sysbatch jobs, whose
    placements name no pool."""
    metric = candidates.metric()
    metric.nodes_evaluated, metric.node_pool = 1, ""
    metric.score_meta_data = [score_of_row(selector, row, request, eviction)]
    return metric


def score_of_row(
    selector: Selector, row: int, request: Request, eviction: Eviction | None = None
) -> ScoreMetaData:
    if eviction is None:
        components = selector.score_components(row, request)
    else:
        components = selector.score_components(row, request, eviction.offer, eviction.fit)
        components["preemption"] = eviction.score
    applying = [
        score
        for name, score in components.items()
        if name in ("binpack", "devices")
        or (name == "node-affinity" and selector.ranking.affinity is not None)
        or (name != "node-affinity" and score)
    ]
    final = sum(applying) / len(applying)
    return ScoreMetaData(
        node_id=selector.node_id(row),
        scores={**components, "normalized-score": final},
        norm_score=final,
    )
