"""Run recorded job differences: `python tests/scenarios/run_diff_golden.py DIR`.

Each file holds two jobs as clients send them and the report that Nomad's plan endpoint gave. Both
pass the same defaults and admission steps here as a registration does. The last line is
`N passed, N failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from jobspec.canonicalize import canonicalize, to_job
from orchgit.jobdiff.annotate import annotated
from orchgit.jobdiff.compare import diff_jobs
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.job import Job
from orchgit.services.jobs.implied_constraints import with_implied_constraints


def as_admitted(spec: dict[str, Any] | None) -> Job | None:
    """A client's job as the server would store it."""
    if spec is None:
        return None
    return with_implied_constraints(to_job(canonicalize(spec)))


def report(case: dict[str, Any]) -> Any:
    """Our report for the case, as it goes out as JSON."""
    updates = msgspec.convert(case["DesiredTGUpdates"] or {}, dict[str, DesiredUpdates])
    diff = diff_jobs(as_admitted(case["old"]), as_admitted(case["new"]), contextual=True)
    return msgspec.json.decode(msgspec.json.encode(annotated(diff, updates)))


def differences(wanted: Any, found: Any, path: str = "Diff") -> Iterable[str]:
    """Where two JSON trees differ, one line each."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            yield from differences(wanted.get(key), found.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif wanted != found:
        yield f"{path}: wanted {json.dumps(wanted)[:300]}, found {json.dumps(found)[:300]}"


def main(directory: str) -> int:
    passed = failed = 0
    for file in sorted(Path(directory).glob("*.json")):
        case = json.loads(file.read_text(encoding="utf-8"))
        try:
            problems = list(differences(case["Diff"], report(case)))
        except Exception as error:
            problems = [f"raised {error!r}"]
        passed += not problems
        failed += bool(problems)
        for problem in problems:
            print(f"{file.stem}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
