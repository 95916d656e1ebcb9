"""Containers of an engine with Docker's API, which keeps them running without the agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from agent.drivers.base import (
    DriverInfo,
    ExecResult,
    ExitResult,
    ReportEvent,
    TaskConfig,
    TaskHandle,
    TaskStats,
    no_events,
)
from agent.drivers.config import duration_s
from agent.drivers.docker.container import KEY_LABEL, OWNER_LABEL, labels_of
from agent.drivers.docker.dangling import DanglingContainers
from agent.drivers.docker.errors import NotThereError
from agent.drivers.docker.flavour import EngineFlavour, ImageWanted, PreparedContainer
from agent.drivers.docker.follower import LogFollower
from agent.drivers.docker.image_garbage import ImageGarbage
from agent.drivers.docker.image_names import ImageName
from agent.drivers.docker.memory_kills import MemoryKillWatch
from agent.drivers.docker.network import driver_network
from agent.drivers.docker.process_watch import NOTICE_S, ProcessWatch, container_ticks
from agent.drivers.docker.pull_progress import PullProgress
from agent.drivers.docker.pulls import ImagePulls
from agent.drivers.docker.session import DockerSession
from agent.drivers.docker.starting import ContainerStart, ensure_image
from agent.drivers.locks import StartLocks
from agent.drivers.sessions import OUTPUT_LIMIT_BYTES, TIMED_OUT
from agent.drivers.signals import signal_number
from agent.drivers.supervised import group_name, log_streams
from agent.loops import spawn
from agent.supervisor.log_files import RotatingFiles
from agent.supervisor.protocol import LogStream
from orchgit.clock import Clock
from orchgit.errors import DriverError

if TYPE_CHECKING:
    import threading

    from agent.drivers.docker.engine import Container, Engine

T = TypeVar("T")

_THREADS = 8
_START_TRIES = 3
_KILLED = 137
"""The exit code of a container that SIGKILL ended."""
_TICKS = "ticks"
_UNNOTICED = "the exit code is unknown: {engine} has not noticed that the container ended"


class ContainerDriver:
    """A driver of one engine; `flavour` says which."""

    isolation = "image"

    def __init__(
        self,
        flavour: EngineFlavour,
        data_dir: Path,
        clock: Clock,
        report: ReportEvent = no_events,
    ) -> None:
        self.name = flavour.name
        self._flavour = flavour
        self._clock = clock
        self._report = report
        self._owner = str(data_dir.absolute())
        self._positions = data_dir / f"{flavour.name}-logs"
        self._engine: Engine | None = None
        self._connecting = asyncio.Lock()
        self._starting = StartLocks()
        self._starts: dict[str, ContainerStart] = {}
        """By attempt, until it is destroyed: a thread may run a start that nobody awaits."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=flavour.name)
        self._ends: dict[str, asyncio.Future[ExitResult]] = {}
        self._followers: dict[str, LogFollower] = {}
        self._watches: dict[str, contextlib.ExitStack] = {}
        """What of each task is seen by the kernel, as its engine does not tell."""
        gc = flavour.settings.gc
        self._pulls = ImagePulls(self._pull, clock)
        self._garbage = ImageGarbage(
            self._remove_image,
            clock,
            duration_s(gc.image_delay),
            data_dir / f"{flavour.name}-images",
            gc.image,
        )
        self._dangling = DanglingContainers(self._owner, self._connected, self._call, gc, clock)

    # -- the engine ----------------------------------------------------------------------------

    async def fingerprint(self) -> DriverInfo:
        if not self._engine_expected():
            return DriverInfo(health_description=f"no {self.name} engine's socket is here")
        try:
            engine = await self._connected()
            version = await self._call(engine.version)
            info = await self._call(engine.info_with_bridge)
        except DriverError as error:
            return DriverInfo(detected=True, health_description=str(error))
        return DriverInfo(
            detected=True,
            healthy=True,
            health_description="Healthy",
            attributes=self._flavour.attributes(version, info),
        )

    def _engine_expected(self) -> bool:
        """Whether it is worth importing the SDK: only a local socket can be seen to be missing."""
        settings = self._flavour.settings
        endpoint = settings.endpoint or os.environ.get("DOCKER_HOST", "")
        if endpoint and not endpoint.startswith("unix://"):
            return True
        return os.path.exists(endpoint.removeprefix("unix://") or settings.usual_socket)

    async def _connected(self) -> Engine:
        async with self._connecting:
            if self._engine is None:
                self._engine = await self._call(self._connect)
            return self._engine

    def _connect(self) -> Engine:
        from agent.drivers.docker.engine import Engine  # the SDK costs 0.1 s and 15 MB

        settings = self._flavour.settings
        return Engine(settings.endpoint, settings.tls, self.name)

    async def _call(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)

    # -- images --------------------------------------------------------------------------------

    def _pull(
        self,
        image: ImageName,
        auth_header: str,
        progress: PullProgress,
        given_up: threading.Event,
    ) -> None:
        assert self._engine is not None, "a pull follows a connection"
        inactivity_s = self._flavour.settings.inactivity_s
        self._engine.images.pull(image, auth_header, inactivity_s, progress, given_up)

    async def _ensure_image(
        self, engine: Engine, wanted: ImageWanted, local_dir: str, report: Callable[[str], None]
    ) -> str:
        return await ensure_image(
            engine, wanted, local_dir, self._flavour.settings, self._pulls, report
        )

    async def _remove_image(self, image_id: str) -> bool:
        engine = await self._connected()
        return await self._call(engine.images.remove, image_id)

    # -- starting ------------------------------------------------------------------------------

    async def start_task(self, task: TaskConfig) -> TaskHandle:
        if task.kill_signal:
            signal_number(task.kill_signal)  # a wrong one must be told now, not at the stop
        wanted = self._flavour.prepare(task)
        wanted.request["Labels"] = {**labels_of(wanted.request), OWNER_LABEL: self._owner}
        engine = await self._connected()
        async with self._starting.of(task.key):
            start = self._starts.setdefault(task.key, ContainerStart())
            container = await self._make(engine, task, wanted, start)
        collects_logs = self._flavour.settings.collects_logs and wanted.has_readable_logs
        streams = log_streams(task) if collects_logs else []
        state = _log_state(container, streams)
        if not self._flavour.settings.tells_every_end:
            state[_TICKS] = str(container_ticks(container.pid, container.id))
        handle = TaskHandle(
            driver=self.name,
            key=task.key,
            started_ns=self._clock.now_ns(),
            pid=container.pid,
            kill_signal=task.kill_signal,
            kill_timeout_s=task.kill_timeout_s,
            state=state,
            network=driver_network(container.addresses, wanted.ports, wanted.prefers_ipv6),
        )
        self._follow(engine, handle)
        return handle

    async def _make(
        self,
        engine: Engine,
        task: TaskConfig,
        wanted: PreparedContainer,
        start: ContainerStart,
    ) -> Container:
        """An image that is removed between its pull and the container is pulled again."""

        def report(message: str) -> None:
            self._report(task.alloc_id, task.task_name, message)

        for left in reversed(range(_START_TRIES)):
            image_id = await self._ensure_image(
                engine, wanted.image, task.task_dir.local_dir, report
            )
            self._garbage.use(image_id, task.key)
            wanted.request["Image"] = image_id
            try:
                return await self._call(start.make, engine, task, wanted)
            except NotThereError:
                found = await self._call(engine.images.find, wanted.image.name)
                if found or not left:
                    raise
        raise AssertionError("the last try returns or raises")

    # -- following -----------------------------------------------------------------------------

    async def recover_task(self, handle: TaskHandle) -> bool:
        engine = await self._connected()
        if not await self._call(engine.exists, handle.state["container"]):
            return False
        self._follow(engine, handle)
        return True

    def _follow(self, engine: Engine, handle: TaskHandle) -> None:
        if handle.key in self._followers:
            return
        if image_id := handle.state.get("image"):
            self._garbage.use(image_id, handle.key)
        with contextlib.suppress(OSError):  # a full disk costs output, not the task
            self._positions.mkdir(parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        end = self._ends[handle.key] = loop.create_future()

        settings, container = self._flavour.settings, handle.state["container"]
        kills = MemoryKillWatch(0 if settings.tells_memory_kills else handle.pid, container)
        watches = self._watches[handle.key] = contextlib.ExitStack()
        watches.callback(kills.close)

        def set_end(result: ExitResult) -> None:
            watches.close()
            if kills.has_seen_one and result.exit_code == _KILLED:
                result = msgspec.structs.replace(result, oom_killed=True, error="OOM Killed")
            if not end.done():
                end.set_result(result)

        if ticks := self._process_ticks(handle):

            def process_ended() -> None:
                noticing = spawn(self._end_unnoticed(engine, container, set_end), "unnoticed end")
                watches.callback(noticing.cancel)

            watches.callback(ProcessWatch(handle.pid, ticks, process_ended).close)

        def ended(result: ExitResult) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(set_end, result)

        follower = LogFollower(
            engine,
            container,
            lambda: _log_files(handle.state),
            self._positions / group_name(handle.key),
            ended,
        )
        self._followers[handle.key] = follower
        follower.start()

    def _process_ticks(self, handle: TaskHandle) -> int:
        """Returns when the process to watch has started; 0 where there is none to watch. Handles of
        earlier versions do not tell."""
        if self._flavour.settings.tells_every_end:
            return 0
        if (stored := handle.state.get(_TICKS)) is not None:
            return int(stored)
        return container_ticks(handle.pid, handle.state["container"])

    async def _end_unnoticed(
        self, engine: Engine, container: str, set_end: Callable[[ExitResult], None]
    ) -> None:
        """The container's process has ended. The engine tells how, unless it does not know."""
        while True:
            await self._clock.sleep(NOTICE_S)
            try:
                if (await self._call(engine.inspect, container)).ended:
                    return
            except NotThereError:
                return
            except DriverError:  # it is asked again when it is back
                continue
            set_end(ExitResult(exit_code=-1, error=_UNNOTICED.format(engine=self.name)))
            return

    async def wait_task(self, handle: TaskHandle) -> ExitResult:
        if handle.key not in self._ends and not await self.recover_task(handle):
            raise DriverError(f"cannot wait for task {handle.key}: its container is gone")
        return await asyncio.shield(self._ends[handle.key])

    # -- ending --------------------------------------------------------------------------------

    async def stop_task(
        self, handle: TaskHandle, timeout_s: float | None = None, signal: str = ""
    ) -> None:
        """Without a signal from the job, the image's own stop signal is sent."""
        engine = await self._connected()
        grace_s = handle.kill_timeout_s if timeout_s is None else timeout_s
        container, name = handle.state["container"], signal or handle.kill_signal
        if not name:
            await self._call(engine.stop, container, grace_s)
        elif await self._call(engine.kill, container, str(signal_number(name))):
            try:
                async with asyncio.timeout(grace_s):
                    await self.wait_task(handle)
            except TimeoutError:
                await self._call(engine.kill, container, "SIGKILL")
        await self.wait_task(handle)

    async def destroy_task(self, handle: TaskHandle) -> None:
        engine = await self._connected()
        follower = self._followers.pop(handle.key, None)
        if follower is not None:
            follower.stop()
            self._watches.pop(handle.key).close()
        end = self._ends.pop(handle.key, None)
        if end is not None:
            end.cancel()
        await self._call(self._remove, engine, handle)
        self._garbage.release(handle.key)
        (self._positions / group_name(handle.key)).unlink(missing_ok=True)

    def _remove(self, engine: Engine, handle: TaskHandle) -> None:
        """By its label: a start that a crash cut short has left no id."""
        start = self._starts.get(handle.key) or ContainerStart()
        start.is_abandoned = True
        with start.making:
            for container in engine.find(f"{KEY_LABEL}={handle.key}"):
                if self._flavour.settings.gc.container:
                    engine.remove(container)
                else:
                    engine.kill(container, "SIGKILL")
        self._starts.pop(handle.key, None)

    async def end_orphans(self, is_known: Callable[[str], bool]) -> None:
        self._garbage.resume()
        if self._engine_expected():
            await self._dangling.sweep(is_known)
            self._dangling.start(is_known)

    async def signal_task(self, handle: TaskHandle, signal: str) -> None:
        engine = await self._connected()
        number = str(signal_number(signal))
        if not await self._call(engine.kill, handle.state["container"], number):
            raise DriverError(f"cannot signal {handle.key}: it has ended")

    # -- beside the task -----------------------------------------------------------------------

    async def exec_task(
        self, handle: TaskHandle, command: list[str], timeout_s: float
    ) -> ExecResult:
        engine = await self._connected()
        made = await self._call(
            engine.exec_create, handle.state["container"], command, False, False
        )
        output = bytearray()
        reading = self._call(_collect, engine, made, output)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(asyncio.ensure_future(reading))
        except TimeoutError:
            await self._call(_kill_exec, engine, made)
            return ExecResult(bytes(output), TIMED_OUT)
        _, code, _ = await self._call(engine.exec_status, made)
        return ExecResult(bytes(output), code)

    async def exec_stream(self, handle: TaskHandle, command: list[str], tty: bool) -> DockerSession:
        engine = await self._connected()
        made = await self._call(engine.exec_create, handle.state["container"], command, tty, True)
        connection = await self._call(engine.exec_socket, made, tty)
        return DockerSession(engine, made, connection, tty)

    async def stats(self, handle: TaskHandle) -> TaskStats:
        engine = await self._connected()
        counters = await self._call(engine.stats, handle.state["container"])
        return TaskStats(
            memory_bytes=counters.get("memory_stats", {}).get("usage", 0),
            cpu_ns=counters.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage", 0),
        )

    async def close(self) -> None:
        for follower in self._followers.values():
            follower.stop()
        for watch in self._watches.values():
            watch.close()
        await self._dangling.close()
        await self._garbage.close()
        self._pulls.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for end in self._ends.values():
            end.cancel()
        if self._engine is not None:
            self._engine.close()


def _collect(engine: Engine, exec_id: str, output: bytearray) -> None:
    for data in engine.exec_output(exec_id):
        output += data
        del output[: max(0, len(output) - OUTPUT_LIMIT_BYTES)]


def _kill_exec(engine: Engine, exec_id: str) -> None:
    """Kill the process of a command, on the same machine: the engine cannot end a command."""
    running, _, pid = engine.exec_status(exec_id)
    if running and pid and os.path.exists(f"/proc/{pid}"):
        os.kill(pid, 9)


def _log_state(container: Container, streams: list[LogStream]) -> dict[str, str]:
    """What `_log_files` needs after a restart of the agent."""
    state = {"container": container.id, "image": container.image}
    for stream in streams:
        state["log_directory"] = stream.directory
        state["log_limits"] = f"{stream.max_files} {stream.max_bytes}"
        state[f"log_{stream.prefix.rpartition('.')[2]}"] = stream.prefix
    return state


def _log_files(state: dict[str, str]) -> dict[str, RotatingFiles]:
    if "log_directory" not in state:
        return {}
    max_files, max_bytes = (int(number) for number in state["log_limits"].split())
    made = {
        name: RotatingFiles(state["log_directory"], state[f"log_{name}"], max_files, max_bytes)
        for name in ("stdout", "stderr")
    }
    for files in made.values():
        with contextlib.suppress(OSError):  # each write tries again
            files.open()
    return made
