"""As many simulated clusters as asked; prints the first seed that breaks a promise, and exits 1.

`python -m tests.benchmarks.simulate_raft --seeds 100000 --first-seed 0`
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.support.raft_simulation import Simulation, Violation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    started_s = time.perf_counter()
    elections = operations = changes = events = 0
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except Violation as violation:
            print(f"seed {seed}: {violation}", file=sys.stderr)
            print(json.dumps({"benchmark": "simulate_raft", "failing_seed": seed}))
            raise SystemExit(1) from None
        elections += simulation.elections
        operations += len(simulation.history)
        changes += simulation.changes
        events += simulation.events
    report = {
        "benchmark": "simulate_raft",
        "seeds": options.seeds,
        "elections": elections,
        "operations": operations,
        "member_changes": changes,
        "events": events,
        "seeds_per_s": round(options.seeds / (time.perf_counter() - started_s), 1),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
