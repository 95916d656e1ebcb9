"""`kill -9` at random moments of pushes and rollouts: nothing acknowledged is lost.

    python -m tests.benchmarks.crash_soak [--rounds 20] [--seed 1]

Each round pushes a new version, kills the server (with its agent) somewhere between the push and
the rollout's end, and starts it again. After the last round the newest acknowledged commit must be
applied, its rollout over, every task of it running once, and no other task of ours alive.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from pathlib import Path

from tests.support.dev_server import DevServer, dev_server, git
from tests.support.job_texts import sleeper
from tests.support.pacing import pause_blocking

MAX_KILL_DELAY_S = 0.6
COUNT = 3


def live_alloc_ids(directory: Path) -> set[str]:
    """Allocations in this directory that some process of this machine belongs to."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            given = dict(pair.split("=", 1) for pair in environment.split("\0") if "=" in pair)
            if given.get("NOMAD_ALLOC_DIR", "").startswith(f"{directory}/"):
                found.add(given["NOMAD_ALLOC_ID"])
    return found


def push_and_kill(server: DevServer, clone: Path, number: int, chance: random.Random) -> str | None:
    """The commit, if its push was acknowledged before the kill; None if it was cut off."""
    (clone / "job.nomad.hcl").write_text(sleeper("soak", count=COUNT, version=str(number)))
    git(clone, "add", "-A")
    git(clone, "commit", "-m", f"Version {number}")
    push = subprocess.Popen(
        ["git", "push", "-q", "-o", "detach", "origin", "main"],
        cwd=clone,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    pause_blocking(chance.uniform(0, MAX_KILL_DELAY_S), "the moment of the kill")
    acknowledged = push.poll() == 0
    server.kill9()
    push.wait()
    server.start()
    commit = git(clone, "rev-parse", "HEAD").out.strip()
    return commit if acknowledged else None


def soak(rounds: int, seed: int) -> dict[str, object]:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as text:
        root = Path(text)
        with dev_server(root / "data", "-no-demo") as server:
            server.cli("source", "add", "soak")
            git(root, "clone", f"{server.address}/git/soak.git", "clone")
            clone = root / "clone"
            git(clone, "checkout", "-B", "main")
            acknowledged = 0
            for number in range(1, rounds + 1):
                commit = push_and_kill(server, clone, number, chance)
                applied = server.get("/v1/gitops/source/soak")["Status"]["AppliedCommit"]
                head = git(clone, "rev-parse", "HEAD").out.strip()
                if commit is not None:
                    acknowledged += 1
                    assert applied == commit, f"round {number}: lost {commit}, has {applied}"
                known = git(clone, "rev-list", "HEAD").out.split()
                assert applied in ("", *known), f"round {number}: {applied} is no commit of ours"
                git(clone, "push", "-q", "-o", "detach", "origin", "main")
            done = server.wait_for(
                f"/v1/gitops/rollout/{head}", lambda found: found["FinishedTime"] > 0, 120
            )
            assert done["Status"] == "healthy", done
            running = server.running_allocations("soak", COUNT)
            wanted = {each["ID"] for each in running}
            versions = {server.log(each, "main").split()[-1] for each in wanted}
            assert versions == {str(rounds)}, versions
            assert live_alloc_ids(root) == wanted
            assert all(len(server.task_pids(each)) == 1 for each in wanted)
            return {
                "benchmark": "crash_soak",
                "rounds": rounds,
                "seed": seed,
                "acknowledged_before_the_kill": acknowledged,
                "lost": 0,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(json.dumps(soak(arguments.rounds, arguments.seed)))


if __name__ == "__main__":
    main()
