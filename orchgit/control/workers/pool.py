"""The scheduler processes of this server: started, watched, paused and resized live.

Processes are spawned, never forked (gRPC and SQLite do not survive a fork). Each is told what to do
over its standard input, and ends by itself when that closes: a worker never outlives its server. It
asks for work over a socket pair of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import structlog

from orchgit import logs
from orchgit.child import PIPE, Child, start_child
from orchgit.clock import Clock
from orchgit.control.evaluations.broker import WorkerSession
from orchgit.control.leader_client.protocol import LeaderClient, serve_leader
from orchgit.control.workers.status import PAUSED, STARTED, UNKNOWN_WORKLOAD, WORKLOAD
from orchgit.errors import InvalidInputError
from orchgit.ids import IdSource
from orchgit.wire.pipe_calls import PipeServer

_log = structlog.get_logger(component="scheduler")

SCHEDULER_TYPES = ("service", "batch", "system", "sysbatch")
MAX_WORKERS = 64
CONFIRM_S = 5.0
REPORT_S = 0.5


@dataclass(frozen=True)
class PoolConfig:
    """`count` 0 means this server schedules nothing itself. A worker that decides on one evaluation
    for longer than `deadline_s` is ended and started anew; the broker gives up an evaluation that
    ends its workers. It is shorter than the broker's hold, so that no two work on one."""

    store: Path
    count: int = 1
    types: tuple[str, ...] = SCHEDULER_TYPES
    stop_grace_s: float = 2.0
    deadline_s: float = 30.0

    def validate(self) -> None:
        if not 0 <= self.count <= MAX_WORKERS:
            raise InvalidInputError(
                f"cannot run {self.count} schedulers: the number must be 0 to {MAX_WORKERS}"
            )
        unknown = sorted(set(self.types) - set(SCHEDULER_TYPES))
        if unknown:
            raise InvalidInputError(
                f"cannot enable schedulers {', '.join(unknown)}: the types are "
                + ", ".join(SCHEDULER_TYPES)
            )


@dataclass
class WorkerInfo:
    """One worker, for the agent's scheduler API."""

    id: str
    enabled_schedulers: list[str]
    started: datetime
    status: str = "Starting"
    workload_status: str = UNKNOWN_WORKLOAD
    pid: int = 0
    restarts: int = 0


@dataclass
class _Slot:
    info: WorkerInfo
    process: Child | None = None
    listener: asyncio.Task[None] | None = None
    told: asyncio.Event = field(default_factory=asyncio.Event)
    reported: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class WorkerPool:
    """`start` returns when the processes are spawned, not when they are ready: they dequeue by
    themselves, from `leader`. `on_gone` is told of each process that has ended."""

    def __init__(
        self,
        config: PoolConfig,
        clock: Clock,
        ids: IdSource,
        leader: LeaderClient,
        on_gone: Callable[[WorkerSession], None],
    ) -> None:
        config.validate()
        self._config = config
        self._clock = clock
        self._ids = ids
        self._leader = leader
        self._on_gone = on_gone
        self._slots: list[_Slot] = []
        self._paused = False
        self._configuring = asyncio.Lock()

    @property
    def types(self) -> Sequence[str]:
        return self._config.types

    @property
    def count(self) -> int:
        return self._config.count

    async def start(self) -> None:
        for _ in range(self._config.count):
            await self._add_slot()

    async def stop(self) -> None:
        slots, self._slots = self._slots, []
        await asyncio.gather(*(self._stop_slot(slot) for slot in slots))

    async def configure(self, count: int, types: Sequence[str]) -> None:
        """Change the number and the types, one caller at a time; workers of other types are
        replaced."""
        async with self._configuring:
            config = replace(self._config, count=count, types=tuple(types))
            config.validate()
            same_types = set(config.types) == set(self._config.types)
            self._config = config
            if not same_types:
                await self.stop()
            surplus, self._slots = self._slots[count:], self._slots[:count]
            await asyncio.gather(*(self._stop_slot(slot) for slot in surplus))
            while len(self._slots) < count:
                await self._add_slot()

    async def pause(self) -> None:
        """Workers finish what they hold and take nothing new. Returns when all of them rest, or
        with some still `Pausing` when that takes too long."""
        await self._set_paused(True, PAUSED)

    async def resume(self) -> None:
        await self._set_paused(False, STARTED)

    @property
    def paused(self) -> bool:
        return self._paused

    def info(self) -> list[WorkerInfo]:
        return [slot.info for slot in self._slots]

    async def ask(self) -> list[WorkerInfo]:
        """The same, when each worker has said what it is doing now; one that is too busy to
        answer keeps its last word."""
        for slot in self._slots:
            slot.reported.clear()
            await _tell(slot, b"report\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REPORT_S):
                await asyncio.gather(*(slot.reported.wait() for slot in self._slots))
        return self.info()

    # -- inside --------------------------------------------------------------------------------

    async def _set_paused(self, paused: bool, wanted: str) -> None:
        self._paused = paused
        for slot in self._slots:
            slot.info.status = "Pausing" if paused else "Resuming"
            await _tell(slot, b"pause\n" if paused else b"resume\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONFIRM_S):
                await asyncio.gather(*(_until_status(slot, wanted) for slot in self._slots))

    async def _add_slot(self) -> None:
        info = WorkerInfo(
            self._ids.new(),
            list(self._config.types),
            datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC),
        )
        slot = _Slot(info)
        await self._spawn(slot)
        slot.task = asyncio.create_task(self._keep_alive(slot))
        self._slots.append(slot)

    async def _spawn(self, slot: _Slot) -> None:
        session = WorkerSession(slot.info.id, self._ids.new())
        own_end, its_end = socket.socketpair()
        with its_end:
            slot.process = await start_child(
                *self._command(its_end.fileno(), session),
                stdin=PIPE,
                stdout=PIPE,
                env=_environment(),
                pass_fds=(its_end.fileno(),),
                start_new_session=True,
            )
        # Lives as long as the worker's process, or until the pool hangs up.
        pipe = PipeServer(on_lost=lambda: self._on_gone(session))
        serve_leader(pipe, self._leader)
        await pipe.connect(own_end)
        slot.info.pid = slot.process.pid
        slot.info.status = "Starting"
        slot.listener = asyncio.create_task(_listen(slot, slot.process))
        if self._paused:
            await _tell(slot, b"pause\n")

    def _command(self, pipe: int, session: WorkerSession) -> list[str]:
        config = self._config
        command = [sys.executable, "-m", "orchgit.control.workers.process"]
        command += ["--store", str(config.store), "--pipe", str(pipe)]
        command += ["--worker", session.worker_id, "--session", session.session]
        command += ["--types", ",".join(config.types), "--deadline-s", str(config.deadline_s)]
        return [*command, "--log", *logs.arguments()]

    async def _keep_alive(self, slot: _Slot) -> None:
        """Start the process again whenever it ends, at most once a second when it ends at once."""
        while True:
            assert slot.process is not None
            started_s = self._clock.monotonic_s()
            code = await slot.process.wait()
            if slot.stopping.is_set():
                return
            if code == -signal.SIGALRM:
                _log.error(
                    "scheduler worker ended: one evaluation took longer than its deadline",
                    worker=slot.info.id,
                    deadline_s=self._config.deadline_s,
                )
            else:
                _log.warning("scheduler worker ended", worker=slot.info.id, code=code)
            if self._clock.monotonic_s() - started_s < 1.0:
                await self._clock.sleep(1.0)
            slot.info.restarts += 1
            await self._spawn(slot)

    async def _stop_slot(self, slot: _Slot) -> None:
        slot.stopping.set()
        slot.info.status = "Stopped"
        process = slot.process
        if process is not None and process.returncode is None:
            if process.stdin is not None:
                process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), self._config.stop_grace_s)
            except TimeoutError:
                process.kill()
                await process.wait()
        for task in (slot.task, slot.listener):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _listen(slot: _Slot, process: Child) -> None:
    """Note how the worker says that it is, until it ends."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        text = line.decode(errors="replace").strip()
        if text.startswith(WORKLOAD):
            slot.info.workload_status = text.removeprefix(WORKLOAD)
            slot.reported.set()
        else:
            slot.info.status = text
            slot.told.set()


async def _until_status(slot: _Slot, wanted: str) -> None:
    while slot.info.status != wanted:
        slot.told.clear()
        await slot.told.wait()


async def _tell(slot: _Slot, line: bytes) -> None:
    process = slot.process
    if process is None or process.stdin is None:
        return
    with contextlib.suppress(ConnectionError):
        process.stdin.write(line)
        await process.stdin.drain()


def _environment() -> dict[str, str]:
    """One thread per numeric library: workers are the parallelism, and idle threads cost memory."""
    threads = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    return {**os.environ, **threads, "GRPC_VERBOSITY": os.environ.get("GRPC_VERBOSITY", "ERROR")}
