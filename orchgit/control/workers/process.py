"""A scheduler process: `python -m orchgit.control.workers.process --store PATH --pipe DESCRIPTOR`.

Reads the server's SQLite file, and calls the leader through the server that started it, over one
end of a socket pair that it inherits. Standard input carries lines: `pause`, `resume` and `report`;
when it closes, the process nacks the evaluations that it holds and ends. On standard output it
writes its status for the pool, and its workload when it is asked to report.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import orchgit.plain_structlog  # noqa: F401 - first: see there
from orchgit import logs
from orchgit.clock import SystemClock
from orchgit.collector import settle_collector
from orchgit.control.leader_client.remote import RemoteLeader, nack_unwanted
from orchgit.control.workers.loop import Schedule, WorkerLoop
from orchgit.control.workers.status import WORKLOAD
from orchgit.ids import RandomIds
from orchgit.model.evaluation import Evaluation
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.schedule import schedule
from orchgit.state.cluster_view import SnapshotClusterView
from orchgit.state.columns import ClusterColumns
from orchgit.state.in_flight import InFlightPlacements
from orchgit.state.store import Store, StoreReader
from orchgit.wait_first import wait_first
from orchgit.wire.messages import DequeueRequest
from orchgit.wire.pipe_calls import PipeChannel


class StoreViews:
    """Views over the read-only store; the node columns are kept and brought up to date."""

    def __init__(self, store: StoreReader) -> None:
        self.in_flight = InFlightPlacements()
        self._store = store
        self._columns = ClusterColumns()
        self._settled_rows = 0
        self._seen_index = 0
        """The store was there, and does not go back."""

    def _settle(self) -> None:
        """The nodes stay for good: a collector that walks all of them costs milliseconds per
        evaluation. Looked at again when the cluster has doubled."""
        if len(self._columns.rows) >= 2 * max(self._settled_rows, 32):
            gc.collect()
            gc.freeze()
            self._settled_rows = len(self._columns.rows)

    async def reach(self, index: int, timeout_s: float) -> None:
        if index > self._seen_index:
            self._seen_index = await self._store.reach(index, timeout_s)

    @contextlib.contextmanager
    def open(self) -> Iterator[ClusterView]:
        with self._store.snapshot() as snapshot:
            self._seen_index = snapshot.index
            self.in_flight.remove_from(self._columns)
            self._columns.refresh(snapshot)
            self.in_flight.add_to(self._columns, snapshot)
            self._settle()
            yield SnapshotClusterView(snapshot, self._columns, self.in_flight)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="orchgit.control.workers.process", description=__doc__)
    parser.add_argument("--store", type=Path, required=True, help="the server's state database")
    parser.add_argument("--pipe", type=int, required=True, help="inherited end of a socket pair")
    parser.add_argument("--worker", default="", help="id of the worker")
    parser.add_argument("--session", default="", help="id of this process of the worker")
    parser.add_argument("--deadline-s", type=float, default=30.0, help="of one evaluation")
    parser.add_argument("--log", nargs=3, help="as `orchgit.logs.arguments` gives them")
    parser.add_argument("--types", default="service,batch,system,sysbatch")
    return parser.parse_args(arguments)


async def run(options: argparse.Namespace) -> None:
    """Work until standard input closes or a signal says stop."""
    pipe = PipeChannel(nack_unwanted)
    await pipe.connect(socket.socket(fileno=options.pipe))
    store = Store.open_reader(options.store)
    loop = WorkerLoop(
        RemoteLeader(pipe),
        StoreViews(store),
        within_deadline(schedule, options.deadline_s),
        SystemClock(),
        RandomIds(),
        DequeueRequest(
            types=options.types.split(","), worker_id=options.worker, session=options.session
        ),
        on_status=_tell_status,
    )
    work = asyncio.create_task(loop.run())
    control = asyncio.create_task(_obey(loop))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, control.cancel)
    async with wait_first(work, control):
        pass
    pipe.close()
    store.close()


def within_deadline(decide: Schedule, deadline_s: float) -> Schedule:
    """The kernel ends the process when deciding on one evaluation takes longer: nothing in it has
    to run for that. The pool starts the next one."""

    def decide_in_time(
        evaluation: Evaluation, view: ClusterView, now_ns: int, seed: int
    ) -> SchedulingOutcome:
        signal.setitimer(signal.ITIMER_REAL, deadline_s)
        try:
            return decide(evaluation, view, now_ns, seed)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    return decide_in_time


def _tell_status(status: str) -> None:
    """The pool reads it from this process's standard output."""
    print(status, flush=True)


async def _obey(loop: WorkerLoop) -> None:
    """Follow the lines on standard input until it closes."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        word = line.decode().strip()
        if word == "report":
            _tell_status(f"{WORKLOAD}{loop.workload}")
        else:
            loop.set_paused(word == "pause")


def main() -> None:
    options = parse_arguments(sys.argv[1:])
    if options.log:
        logs.configure_from(options.log)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal tells all of its processes
    settle_collector()
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
