"""Recorded cases changed in one respect, so that what was not recorded can be asked too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.golden_report import Report
from tests.support.golden_world import play

CASES = Path(__file__).resolve().parents[1] / "golden" / "scheduler"
FAMILIES = CASES.parent / "scheduler-families"
Case = dict[str, Any]


@cache
def _text(name: str) -> str:
    """`name` may be the beginning of a family's name."""
    family = sorted(FAMILIES.glob(f"{name}*.json"))
    file = family[0] if family else CASES / f"{name}.json"
    return file.read_text(encoding="utf-8")


def recorded(name: str) -> Case:
    """A copy that may be changed."""
    case: Case = json.loads(_text(name))
    return case


def current_job(case: Case) -> Case:
    job: Case = max(case["jobs"], key=lambda job: job["Version"])
    return job


def only_group(case: Case) -> Case:
    group: Case = current_job(case)["TaskGroups"][0]
    return group


@dataclass
class Decided:
    """What came out, in the words of the recorded cases."""

    evaluation: Case
    plan: Case

    @property
    def desired(self) -> Case:
        only: Case = next(iter(self.evaluation["desired_tg_updates"].values()))
        return only

    @property
    def failed(self) -> Case:
        only: Case = next(iter(self.evaluation["failed_tg_allocs"].values()))
        return only

    def placed(self) -> list[tuple[str, str]]:
        """(name, node) of every placement."""
        return sorted((place["name"], place["node_name"]) for place in self.plan["places"])

    def stopped(self) -> list[tuple[str, str]]:
        """(name, description) of every stop."""
        stops = self.plan["stops"]
        return sorted((stop["name"], stop["desired_description"]) for stop in stops)

    def updated(self) -> list[tuple[str, str]]:
        """(name, kind) of every update of an existing allocation."""
        return sorted((update["name"], update["kind"]) for update in self.plan["updates"])


def decide(case: Case, seed: int = 1) -> Decided:
    played = play(case, seed)
    report = Report(case, played)
    return Decided(report.evaluation(), report.plan(0) if played.plans else {})
