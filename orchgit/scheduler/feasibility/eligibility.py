"""Records which computed node classes an evaluation found able to take the job.

A blocked evaluation carries it: it is woken only by a change to a class that may help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from orchgit.scheduler.feasibility.checks import GROUP, JOB, Check
from orchgit.scheduler.ports import Mask, NodeColumns, Numbers

CLASS_INELIGIBLE = "computed class ineligible"


class ClassEligibility:
    """Records, per level, whether a computed class passed. If nodes of one class differ, each is
    judged by itself and the class is eligible when any of them passes."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._known: dict[tuple[str, int], bool] = {}
        self._escaped: set[str] = set()
        self.has_escaped = False

    def escape(self, level: str) -> None:
        """Stops recording classes at this level, because nodes of one class may differ there."""
        self._escaped.add(level)
        self.has_escaped = True

    def fresh(self) -> ClassEligibility:
        """Returns a record without judged nodes, for a separate explanation."""
        twin = ClassEligibility(self._columns)
        twin._escaped = self._escaped
        return twin

    def class_eligibility(self) -> dict[str, bool]:
        """Returns computed class -> eligible, for the classes that were judged."""
        verdicts: dict[int, bool] = {}
        for (level, code), eligible in self._known.items():
            if level == JOB:
                if not eligible:
                    verdicts[code] = False
            else:
                verdicts[code] = verdicts.get(code, False) or eligible
        for (level, code), eligible in self._known.items():
            if level == JOB and not eligible:
                verdicts[code] = False
        names = self._class_names()
        return {names[code]: eligible for code, eligible in verdicts.items()}

    def _class_names(self) -> dict[int, str]:
        known: dict[int, str] | None = self._columns.memo.get("class names")
        if known is None:
            known = self._columns.memo["class names"] = {
                int(code): node.computed_class
                for code, node in zip(
                    self._columns.class_codes.tolist(), self._columns.nodes, strict=True
                )
                if node is not None
            }
        return known

    def filter(
        self, rows: Numbers, group: str, checks: Iterable[Check]
    ) -> tuple[Mask, Counter[str], Numbers]:
        """Judges the rows and records their classes; returns (mask of rows that pass, reasons, rows
        that fail)."""
        reasons: Counter[str] = Counter()
        failed_rows: list[Numbers] = []
        keep = np.ones(len(rows), dtype=np.bool_)
        if not len(rows):
            return keep, reasons, rows
        all_checks = list(checks)
        for level in (JOB, GROUP):
            passing = rows[keep]
            level_checks = [check for check in all_checks if check.level == level]
            first_fail = _first_failures(passing, level_checks)
            key = level if level == JOB else f"{GROUP} {group}"
            reasons += self._judge(passing, first_fail, level_checks, key)
            failed_rows.append(passing[first_fail >= 0])
            keep[keep] = first_fail < 0
        return keep, reasons, np.concatenate(failed_rows)

    def _judge(
        self, rows: Numbers, first_fail: Numbers, checks: list[Check], level: str
    ) -> Counter[str]:
        if level in self._escaped:
            return Counter(checks[i].reason for i in first_fail[first_fail >= 0].tolist())
        reasons: Counter[str] = Counter()
        codes = self._columns.class_codes[rows]
        failed = first_fail >= 0
        size = int(codes.max()) + 1 if len(codes) else 0
        seen = np.bincount(codes, minlength=size).tolist()
        failures = np.bincount(codes[failed], minlength=size).tolist()
        firsts = dict(zip(*_first_of_each(codes[failed], first_fail[failed]), strict=True))
        for code, count in enumerate(seen):
            if not count:
                continue
            if failures[code]:
                first = 0 if self._known.get((level, code)) is False else 1
                if first:
                    reasons[checks[firsts[code]].reason] += 1
                if failures[code] > first:
                    reasons[CLASS_INELIGIBLE] += failures[code] - first
            self._known[level, code] = failures[code] < count
        return reasons


def _first_of_each(codes: Numbers, values: Numbers) -> tuple[list[int], list[int]]:
    """Returns (each code once, the value at its first position)."""
    unique, places = np.unique(codes, return_index=True)
    return unique.tolist(), values[places].tolist()


def _first_failures(rows: Numbers, checks: list[Check]) -> Numbers:
    """Returns, for each row, the index of the first check that it fails, or -1."""
    first = np.full(len(rows), -1, dtype=np.int64)
    for index in range(len(checks) - 1, -1, -1):
        first[~checks[index].mask[rows]] = index
    return first
