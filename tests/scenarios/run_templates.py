"""Runs recorded cases of templates and of their changes: `python -m tests.scenarios.run_templates
DIR`.

`DIR` holds one file for each case, of the kinds "template" and "change_mode". A server and an agent
are started as in the recordings, and every case is a job of its own; many run at the same time.
`--messages` also prints the texts that differ. The last line is `N passed, N failed`; the exit
status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.recorded_changes import run_change_cases
from tests.support.recorded_templates import differences, different_messages, run_cases
from tests.support.template_fixture import TemplateRig, template_rig

_AT_ONCE = 40


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--messages", action="store_true")
    parser.add_argument("--only", default="", help="a part of the names of the cases to run")
    options = parser.parse_args()
    return 1 if failures(options.directory, options.only, options.messages) else 0


def failures(directory: Path, only: str = "", with_messages: bool = False) -> int:
    """Runs the cases below the directory, and prints what differs. Returns how many failed."""
    cases: dict[str, dict[str, Any]] = {"template": {}, "change_mode": {}}
    for path in sorted(directory.rglob("*.json")):
        case = json.loads(path.read_text())
        if isinstance(case, dict) and case.get("kind") in cases and only in path.stem:
            cases[case["kind"]][path.stem] = case
    passed = failed = texts = 0
    with tempfile.TemporaryDirectory() as data_dir, template_rig(Path(data_dir)) as rig:
        for name, problems, messages in _all_cases(rig, cases):
            passed, failed = passed + (not problems), failed + bool(problems)
            texts += bool(messages)
            for problem in [*problems, *(messages if with_messages else ())]:
                print(f"{name}: {problem}")
    print(f"{texts} cases have other texts of messages")
    print(f"{passed} passed, {failed} failed")
    return failed


def _all_cases(
    rig: TemplateRig, cases: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields (name, problems, other texts) of each case."""
    templates = list(cases["template"].items())
    for start in range(0, len(templates), _AT_ONCE):
        for running in run_cases(rig, dict(templates[start : start + _AT_ONCE])):
            yield running.name, differences(running), different_messages(running)
    for name, problems in run_change_cases(rig, cases["change_mode"]):
        yield name, problems, []


if __name__ == "__main__":
    sys.exit(main())
