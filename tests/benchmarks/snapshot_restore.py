"""What a backup and a restore cost: `python -m tests.benchmarks.snapshot_restore`.

One server with `--allocations` rows; a second, empty one is given its snapshot. Ends with one JSON
line: seconds to save, to restore (and of that, to put it in the place of the state), sizes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from pathlib import Path

from orchgit.clock import SystemClock
from orchgit.ids import RandomIds
from orchgit.model.plan import PlanResult
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.services.cluster.snapshots import restore_snapshot, save_snapshot
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.keyring import Keyring
from tests.support.factories import make_job, make_node, make_placements

_ROWS = 2000
_NODES = 1000


async def _context(directory: Path) -> UseCaseContext:
    clock, ids = SystemClock(), RandomIds()
    state = ReplicatedState(ReplicationConfig(directory, "server"), clock, ids)
    await state.start()
    return UseCaseContext(state, clock, ids)


async def _fill(context: UseCaseContext, allocations: int) -> None:
    nodes = [make_node(id=context.ids.new()) for _ in range(_NODES)]
    await asyncio.gather(*(context.propose(RegisterNode(node=node)) for node in nodes))
    for _ in range(allocations // _ROWS):
        job = make_job()
        await context.propose(RegisterJob(upsert=JobUpsert(job=job)))
        ids = [context.ids.new() for _ in range(_ROWS)]
        rows = make_placements(job, nodes, _ROWS, eval_id=context.ids.new(), alloc_ids=ids)
        await context.propose(
            ApplyPlan(
                namespace=job.namespace,
                job_id=job.id,
                job_version=0,
                eval_id=rows.eval_id,
                result=PlanResult(placements=[rows]),
            )
        )


async def _run(allocations: int, directory: Path) -> dict[str, object]:
    old, new = await _context(directory / "old"), await _context(directory / "new")
    await _fill(old, allocations)
    started_s = time.perf_counter()
    saved = await save_snapshot(old, "global")
    saved_s = time.perf_counter()
    await restore_snapshot(new, Keyring(new, bytes(32)), saved.file, force=True)
    restored_s = time.perf_counter()
    with new.snapshot() as snapshot:
        assert len(snapshot.jobs.all()) == allocations // _ROWS
    state_mb = new.state.store.path.stat().st_size / 1e6
    saved.file.close()
    await old.state.stop()
    await new.state.stop()
    return {
        "allocations": allocations,
        "save_s": round(saved_s - started_s, 2),
        "restore_s": round(restored_s - saved_s, 2),
        "archive_mb": round(saved.size / 1e6, 1),
        "state_mb": round(state_mb, 1),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allocations", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(asyncio.run(_run(arguments.allocations, Path(directory)))))


if __name__ == "__main__":
    main()
