"""A server's replicated state under load, to be killed: prints each acknowledged write.

`python -m tests.integration.replication_writer DATA_DIR FIRST` registers `job-N`, N from FIRST,
sixteen at a time, each with its evaluation, and prints `N index` after the acknowledgement.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from orchgit.clock import SystemClock
from orchgit.ids import RandomIds
from orchgit.replication.commands import JobUpsert, RegisterJob
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from tests.support.factories import make_evaluation, make_job

CLIENTS = 16


async def _client(state: ReplicatedState, numbers: itertools.count[int]) -> None:
    for number in numbers:
        job = make_job(id=f"job-{number}")
        evaluation = make_evaluation(job, id=f"eval-{number}")
        applied = await state.propose(RegisterJob(upsert=JobUpsert(job=job), evaluation=evaluation))
        os.write(1, f"{number} {applied.index}\n".encode())


async def _run(directory: Path, first: int) -> None:
    config = ReplicationConfig(directory, "server", snapshot_log_bytes=64 << 10)
    state = ReplicatedState(config, SystemClock(), RandomIds())
    await state.start()
    os.write(1, b"started\n")
    numbers = itertools.count(first)
    await asyncio.gather(*(_client(state, numbers) for _ in range(CLIENTS)))


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1]), int(sys.argv[2])))
