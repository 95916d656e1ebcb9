"""Run recorded scheduling cases: `python tests/scenarios/run_golden.py DIR`.

DIR holds cases of the scheduler (with an evaluation) or of the plan applier (with a plan). The last
line is `N passed, N failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.golden_compare import compare_evaluation, compare_plan
from tests.support.golden_plans import plan_problems
from tests.support.golden_report import Report
from tests.support.golden_world import play

SEEDS = (1, 2, 3)


def load(file: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return case


def problems(case: dict[str, Any], seed: int = SEEDS[0]) -> list[str]:
    """Where our result differs from what is recorded; empty: the case passes."""
    if "eval" not in case:
        return plan_problems(case)
    wanted, varies = case["expect"], case.get("varies", [])
    played = play(case, seed)
    report = Report(case, played)
    found = list(compare_evaluation(wanted, report.evaluation(), varies))
    if wanted["plans"] != len(played.plans):
        return [*found, f"{len(played.plans)} plans, wanted {wanted['plans']}"]
    sequence = wanted.get("plan_seq") or ([wanted] if played.plans else [])
    for number, plan in enumerate(sequence):
        found += compare_plan(plan, report.plan(number))
    return found


def main(directory: str) -> int:
    passed = failed = 0
    for file in sorted(Path(directory).glob("*.json")):
        case = load(file)
        try:
            found = [problem for seed in SEEDS for problem in problems(case, seed)]
        except Exception:
            found = traceback.format_exc().splitlines()
        passed += not found
        failed += bool(found)
        for line in found[:12]:
            print(f"{file.stem}: {line}"[:2000])
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/scenarios/run_golden.py DIR")
    sys.exit(main(sys.argv[1]))
