"""A source under all that people do, thousands of times: see `tests/support/gitops_machine.py`.

    python -m tests.benchmarks.gitops_machine [--examples 2000] [--steps 30] [--seed N] [--shrink]

One line of JSON at the end; the failed example and exit status 1 at the first difference from the
model. `--shrink` makes that example short, which takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import time

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from orchgit import logs
from tests.support.gitops_machine import GitopsMachine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2_000)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_007)
    parser.add_argument("--shrink", action="store_true")
    options = parser.parse_args()
    logs.configure(logs.LogSettings("ERROR"))
    machine = seed(options.seed)(GitopsMachine)
    began_s = time.monotonic()
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=options.examples,
            stateful_step_count=options.steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink) if options.shrink else (Phase.generate,),
            report_multiple_bugs=False,
        ),
    )
    result = {
        "benchmark": "gitops_machine",
        "examples": options.examples,
        "steps_each": options.steps,
        "seed": options.seed,
        "differences_from_the_model": 0,
        "seconds": round(time.monotonic() - began_s, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
