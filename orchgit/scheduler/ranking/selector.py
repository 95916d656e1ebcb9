"""Selects the best node for each further allocation of a group while a plan grows."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from orchgit.scheduler.feasibility.checks import by_node
from orchgit.scheduler.feasibility.distinct import RowCheck
from orchgit.scheduler.ports import Mask, NodeColumns, Numbers
from orchgit.scheduler.ranking.anti_affinity import AntiAffinity
from orchgit.scheduler.ranking.best_first import NO_ROW
from orchgit.scheduler.ranking.offers import NotOfferedError, Offer, offer
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.ranking.queues import Queues
from orchgit.scheduler.ranking.required_resources import RequiredResources
from orchgit.scheduler.ranking.spread import SpreadScore
from orchgit.scheduler.ranking.tie_break import TieBreak

Scores = NDArray[np.float64]
_MAX_QUEUES = 64
_SCANS_BEFORE_SORTING = 2
_BINPACK_BEST = 18.0
_NO_SCORE = float("-inf")


@dataclass(slots=True)
class Request:
    """The properties of one placement: its name, penalized rows and preferred row."""

    name: str
    penalty_rows: frozenset[int] = frozenset()
    preferred_row: int = NO_ROW


@dataclass(slots=True)
class Choice:
    row: int
    offer: Offer


@dataclass(slots=True)
class Ranking:
    """The criteria that rank a group's nodes, besides their usage."""

    spread_algorithm: bool = False
    anti_affinity: AntiAffinity | None = None
    affinity: Scores | None = None
    spread: SpreadScore | None = None
    row_checks: list[RowCheck] = field(default_factory=list)
    scan_only: bool = False
    """A row check's answer may change without its row being touched (volumes and claims)."""


class Selector:
    """Ranks the rows of `mask`; every score is the mean of the scores that apply to a row.

    Three ways give the same answer: a scan over all rows (few placements, or any with a penalty),
    one sorted queue (no spread), one queue per spread combination (spread).
    """

    def __init__(
        self,
        proposed: Proposed,
        ask: RequiredResources,
        mask: Mask,
        ranking: Ranking,
        tie_break: TieBreak,
    ) -> None:
        self.ask = ask
        self.ranking = ranking
        self.rows: Numbers = np.flatnonzero(mask)
        self._proposed = proposed
        self._tie_break = tie_break
        self._mask = mask
        self._group = ask.group.name
        self._cursor = len(proposed.touched)
        self._scans = 0
        self._queues: Queues | None = None
        self._capacities: dict[int, tuple[int, int, int]] = {}
        self.limited = _rows_with_limits(proposed.columns)
        self.left_out: tuple[Numbers, Counter[str]] | None = None
        """The candidates that are not in `mask` and the reasons, computed on first use."""
        self._same_offer = Offer(ask.cpu) if ask.is_plain and not ask.has_ports else None
        self._build()

    @property
    def rng(self) -> random.Random:
        return self._tie_break.rng

    # --- scores ---------------------------------------------------------------------------

    def _build(self) -> None:
        """Computes the scores of all rows."""
        size = len(self._mask)
        self._sums = np.full(size, -np.inf)
        self._parts = np.ones(size, dtype=np.int64)
        self._cursor = len(self._proposed.touched)
        self._queues = None
        if not len(self.rows):
            return
        if not self.ask.is_plain:
            for row in self.rows.tolist():
                self._rescore(row)
            return
        columns, ask = self._proposed.columns, self.ask
        # A view of all of them, where that is what is ranked, spares eight copies.
        rows = slice(None) if len(self.rows) == size else self.rows
        cpu_used, memory_used, disk_used = self._proposed.usage_vectors()
        cpu_after = cpu_used[rows] + ask.cpu
        memory_after = memory_used[rows] + ask.memory
        cpu, memory = columns.cpu_capacity[rows], columns.memory_capacity[rows]
        fits = (cpu_after <= cpu) & (memory_after <= memory)
        fits &= disk_used[rows] + ask.disk <= columns.disk_capacity[rows]
        total = 10.0 ** (1.0 - cpu_after / np.maximum(cpu, 1)) + 10.0 ** (
            1.0 - memory_after / np.maximum(memory, 1)
        )
        score = total - 2.0 if self.ranking.spread_algorithm else 20.0 - total
        sums = np.minimum(np.maximum(score, 0.0), _BINPACK_BEST) / _BINPACK_BEST
        if self.ranking.affinity is not None:
            sums += self.ranking.affinity[rows]
            self._parts[rows] += 1
        self._sums[rows] = np.where(fits, sums, -np.inf)
        if self.ranking.anti_affinity is not None:
            for row in self.ranking.anti_affinity.rows():
                penalty = self.ranking.anti_affinity.score(row)
                if penalty and self._mask[row]:
                    self._sums[row] += penalty
                    self._parts[row] += 1
        for row in self.limited:
            if self._mask[row]:
                self._rescore(row)

    def _rescore(self, row: int) -> None:
        """Computes the scores of one row whose usage changed."""
        sums, parts = self._sums_of(row)
        self._sums[row] = sums
        self._parts[row] = parts
        if self._queues is not None:
            self._queues.put(row, sums, parts)

    def _sums_of(self, row: int) -> tuple[float, int]:
        """Returns (sum, number) of the scores that apply to the row now."""
        if self.ask.is_plain:
            components = self._components(row, self.ask.cpu, None)
        else:
            try:
                offered = offer(self._proposed, row, self.ask, self.rng)
            except NotOfferedError:
                components = None
            else:
                components = self._components(row, offered.cpu, offered.device_score)
        return components or (_NO_SCORE, 1)

    def _components(
        self, row: int, ask_cpu: int, device_score: float | None
    ) -> tuple[float, int] | None:
        """Returns (sum, number) of the scores that apply; None if the allocation does not fit."""
        fit = self.fit(row, ask_cpu)
        if fit is None:
            return None
        total, parts = fit, 1
        if device_score is not None:
            total += device_score
            parts += 1
        if self.ranking.anti_affinity is not None:
            penalty = self.ranking.anti_affinity.score(row)
            if penalty:
                total += penalty
                parts += 1
        if self.ranking.affinity is not None:
            total += float(self.ranking.affinity[row])
            parts += 1
        return total, parts

    def fit(self, row: int, ask_cpu: int) -> float | None:
        """Returns the fit score of the row; None if the row has no room."""
        ask = self.ask
        cpu, memory, disk = self._capacities.get(row) or self._capacity(row)
        used_cpu, used_memory, used_disk = self._proposed.usage(row)
        used_cpu += ask_cpu
        used_memory += ask.memory
        if used_cpu > cpu or used_memory > memory or used_disk + ask.disk > disk:
            return None
        if row in self.limited and self._proposed.free_slots(row) < 1:
            return None
        return self._packing(used_cpu / (cpu or 1), used_memory / (memory or 1))

    def fill(self, row: int, ask_cpu: int) -> float:
        """Returns the fit score of the row with the ask added, even if the row has no room."""
        cpu, memory, _ = self._capacities.get(row) or self._capacity(row)
        used_cpu, used_memory, _ = self._proposed.usage(row)
        return self._packing(
            (used_cpu + ask_cpu) / (cpu or 1), (used_memory + self.ask.memory) / (memory or 1)
        )

    def _packing(self, cpu_share: float, memory_share: float) -> float:
        """Returns the binpack or spread score, from 0 to 1, of these shares of a node in use."""
        total = 10.0 ** (1.0 - cpu_share) + 10.0 ** (1.0 - memory_share)
        score = total - 2.0 if self.ranking.spread_algorithm else 20.0 - total
        return min(max(score, 0.0), _BINPACK_BEST) / _BINPACK_BEST  # type: ignore[no-any-return]

    def _capacity(self, row: int) -> tuple[int, int, int]:
        columns = self._proposed.columns
        known = self._capacities[row] = (
            columns.cpu_capacity.item(row),
            columns.memory_capacity.item(row),
            columns.disk_capacity.item(row),
        )
        return known

    def _sync(self) -> None:
        touched = self._proposed.touched
        for position in range(self._cursor, len(touched)):
            row = touched[position]
            if self._mask[row]:
                self._rescore(row)
        self._cursor = len(touched)

    # --- selection ------------------------------------------------------------------------

    def select(self, request: Request) -> Choice | None:
        """Returns the best row and its offer, without reserving it; None if no row fits."""
        self._sync()
        if request.preferred_row != NO_ROW:
            if not self._mask[request.preferred_row]:
                self._sums[request.preferred_row], _ = self._sums_of(request.preferred_row)
            choice = self._accept(request.preferred_row, request)
            if choice is not None:
                return choice
        if request.penalty_rows or self.ranking.scan_only or not self._may_queue():
            return self._select_by_scan(request)
        return self._select_from_queues(request)

    def _may_queue(self) -> bool:
        if self._queues is not None:
            return True
        self._scans += 1
        spread = self.ranking.spread
        return self._scans > _SCANS_BEFORE_SORTING and (
            spread is None or spread.combinations <= _MAX_QUEUES
        )

    def _accept(self, row: int, request: Request) -> Choice | None:
        if self._sums[row] == _NO_SCORE:
            return None
        if self.ranking.row_checks and self.refusal(row, request.name):
            return None
        if self._same_offer is not None:
            return Choice(row, self._same_offer)
        try:
            return Choice(row, offer(self._proposed, row, self.ask, self.rng))
        except NotOfferedError:
            return None

    def refusal(self, row: int, name: str) -> str:
        """Returns why other placements keep the row from taking the allocation; empty if they do
        not."""
        reasons = (check.refused(row, name) for check in self.ranking.row_checks)
        return next((reason for reason in reasons if reason), "")

    def scores(self, penalty_rows: frozenset[int] = frozenset()) -> Scores:
        """Returns the final score of every row of `self.rows`; -inf where the allocation does not
        fit."""
        self._sync()
        rows = self.rows
        sums, parts = self._sums[rows], self._parts[rows]
        if self.ranking.spread is not None:
            boosts = self.ranking.spread.boosts()[self.ranking.spread.combination[rows]]
            sums = sums + boosts
            parts = parts + (boosts != 0)
        if penalty_rows:
            penalised = np.isin(rows, list(penalty_rows))
            sums = sums - penalised
            parts = parts + penalised
        return sums / parts

    def _select_by_scan(self, request: Request) -> Choice | None:
        scores = self.scores(request.penalty_rows)
        if not len(scores):
            return None
        while True:
            best = scores.max()
            if best == -np.inf:
                return None
            equal = np.flatnonzero(scores == best)
            position = equal[np.argmin(self._tie_break.ties[self.rows[equal]])]
            choice = self._accept(int(self.rows[position]), request)
            if choice is not None:
                return choice
            scores[position] = -np.inf

    def _select_from_queues(self, request: Request) -> Choice | None:
        queues = self._queues
        if queues is None:
            rows = self.rows[self._sums[self.rows] != -np.inf]
            queues = self._queues = Queues(
                rows, self._sums[rows], self._parts[rows], self._tie_break.ties, self.ranking.spread
            )
        while True:
            row = queues.best()
            if row == NO_ROW:
                return None
            choice = self._accept(row, request)
            if choice is not None:
                return choice
            queues.drop(row)

    # --- what the plan does ---------------------------------------------------------------

    @property
    def follows_changes(self) -> bool:
        """Whether the caller must report the plan's changes with `changed`; changes of usage are
        noticed anyway."""
        return self.ranking.spread is not None or bool(self.ranking.row_checks)

    def changed(self, row: int, group: str, change: int) -> None:
        """Records that the plan placed (`change` 1) or stopped (-1) a live allocation of the job on
        the row."""
        if self.ranking.spread is not None and group == self._group:
            self.ranking.spread.add(row, change)
        for check in self.ranking.row_checks:
            check.add(row, group, change)
        if change < 0 and any(check.frees_others for check in self.ranking.row_checks):
            self._queues = None

    def choose_row(self, row: int, request: Request) -> Choice | None:
        """Returns the offer of this one row, for schedulers that judge nodes one by one; None if it
        cannot."""
        self._sync()
        return self._accept(row, request) if self._mask[row] else None

    def other_scores(self, row: int, request: Request, device_score: float | None) -> list[float]:
        """Returns the scores of the row that apply besides its fit."""
        scores = [] if device_score is None else [device_score]
        if self.ranking.anti_affinity is not None and (
            penalty := self.ranking.anti_affinity.score(row)
        ):
            scores.append(penalty)
        if row in request.penalty_rows:
            scores.append(-1.0)
        if self.ranking.affinity is not None:
            scores.append(float(self.ranking.affinity[row]))
        if self.ranking.spread is not None:
            boost = float(self.ranking.spread.boosts()[self.ranking.spread.combination[row]])
            if boost:
                scores.append(boost)
        return scores

    def node_id(self, row: int) -> str:
        node = self._proposed.columns.nodes[row]
        assert node is not None, "only rows with a node are ranked"
        return node.id

    def score_components(
        self, row: int, request: Request, offered: Offer | None = None, fit: float | None = None
    ) -> dict[str, float]:
        """Returns every score of one row by Nomad's names. `offered` and `fit` replace the row's
        own values, for a row where an eviction makes room."""
        if offered is None and self.ask.is_plain:
            offered = Offer(self.ask.cpu)
        offered = offered or offer(self._proposed, row, self.ask, self.rng)
        cpu, device_score = offered.cpu, offered.device_score
        anti_affinity = self.ranking.anti_affinity
        affinity = self.ranking.affinity
        scores = {"binpack": (self.fit(row, cpu) or 0.0) if fit is None else fit}
        if anti_affinity is not None:
            scores["job-anti-affinity"] = anti_affinity.score(row)
            scores["node-reschedule-penalty"] = -1.0 if row in request.penalty_rows else 0.0
            scores["node-affinity"] = 0.0 if affinity is None else float(affinity[row])
        if device_score is not None:
            scores["devices"] = device_score
        if self.ranking.spread is not None:
            boost = float(self.ranking.spread.boosts()[self.ranking.spread.combination[row]])
            if boost:
                scores["allocation-spread"] = boost
        return scores


def _rows_with_limits(columns: NodeColumns) -> frozenset[int]:
    """Returns the rows of the nodes that limit their number of allocations."""
    known = columns.memo.get("rows with limits")
    if known is None:
        mask = by_node(columns, "max allocs", lambda node: node.node_max_allocs > 0)
        known = columns.memo["rows with limits"] = frozenset(np.flatnonzero(mask).tolist())
    return cast(frozenset[int], known)
