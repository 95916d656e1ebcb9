"""`docker`: containers of a Docker engine, which keeps them running without the agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import structlog

from agent.drivers.base import (
    DriverInfo,
    ExecResult,
    ExitResult,
    TaskConfig,
    TaskHandle,
    TaskStats,
)
from agent.drivers.config import decode_config, duration_s
from agent.drivers.docker.config import DockerConfig, DockerOptions
from agent.drivers.docker.container import (
    ALLOC_LABEL,
    KEY_LABEL,
    OWNER_LABEL,
    container_name,
    container_request,
    labels_of,
)
from agent.drivers.docker.follower import LogFollower
from agent.drivers.docker.session import DockerSession
from agent.drivers.locks import StartLocks
from agent.drivers.sessions import OUTPUT_LIMIT_BYTES, TIMED_OUT
from agent.drivers.signals import signal_number
from agent.drivers.supervised import group_name, log_streams
from agent.supervisor.log_files import RotatingFiles
from agent.supervisor.protocol import LogStream
from orchgit.clock import Clock
from orchgit.errors import DriverError

if TYPE_CHECKING:
    from agent.drivers.docker.engine import Container, Engine

T = TypeVar("T")

_log = structlog.get_logger(component="agent")

_DEFAULT_SOCKET = "/var/run/docker.sock"
_THREADS = 8


class DockerDriver:
    name = "docker"
    isolation = "image"

    def __init__(self, data_dir: Path, options: DockerOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._owner = str(data_dir.absolute())
        self._positions = data_dir / "docker-logs"
        self._engine: Engine | None = None
        self._connecting = asyncio.Lock()
        self._starting = StartLocks()
        self._starts: dict[str, _Start] = {}
        """By attempt, until it is destroyed: a thread may run a start that nobody awaits."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="docker")
        self._ends: dict[str, asyncio.Future[ExitResult]] = {}
        self._followers: dict[str, LogFollower] = {}

    # -- the engine ----------------------------------------------------------------------------

    async def fingerprint(self) -> DriverInfo:
        if not self._engine_expected():
            return DriverInfo(health_description="no docker engine's socket is here")
        try:
            engine = await self._connected()
            version = await self._call(engine.version)
        except DriverError as error:
            return DriverInfo(detected=True, health_description=str(error))
        return DriverInfo(
            detected=True,
            healthy=True,
            health_description="Healthy",
            attributes={
                "driver.docker": "1",
                "driver.docker.version": str(version.get("Version", "")),
                "driver.docker.os_type": str(version.get("Os", "")),
                "driver.docker.volumes.enabled": str(self._options.volumes_enabled).lower(),
                "driver.docker.privileged.enabled": str(self._options.allow_privileged).lower(),
            },
        )

    def _engine_expected(self) -> bool:
        """Whether it is worth importing the SDK: only a local socket can be seen to be missing."""
        endpoint = self._options.endpoint or os.environ.get("DOCKER_HOST", "")
        if endpoint and not endpoint.startswith("unix://"):
            return True
        return os.path.exists(endpoint.removeprefix("unix://") or _DEFAULT_SOCKET)

    async def _connected(self) -> Engine:
        async with self._connecting:
            if self._engine is None:
                self._engine = await self._call(self._connect)
            return self._engine

    def _connect(self) -> Engine:
        from agent.drivers.docker.engine import Engine  # the SDK costs 0.1 s and 15 MB

        return Engine(self._options.endpoint)

    async def _call(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)

    # -- starting ------------------------------------------------------------------------------

    async def start_task(self, task: TaskConfig) -> TaskHandle:
        config = decode_config(self.name, task.task_name, task.config, DockerConfig)
        if task.kill_signal:
            signal_number(task.kill_signal)  # a wrong one must be told now, not at the stop
        request = container_request(task, config, self._options, os.cpu_count() or 1)
        request["Labels"] = {**labels_of(request), OWNER_LABEL: self._owner}
        engine = await self._connected()
        async with self._starting.of(task.key):
            start = self._starts.setdefault(task.key, _Start())
            container = await self._call(
                self._create_and_start, engine, task, config, request, start
            )
        handle = TaskHandle(
            driver=self.name,
            key=task.key,
            started_ns=self._clock.now_ns(),
            pid=container.pid,
            kill_signal=task.kill_signal,
            kill_timeout_s=task.kill_timeout_s,
            state=_log_state(container.id, log_streams(task)),
        )
        self._follow(engine, handle)
        return handle

    def _create_and_start(
        self,
        engine: Engine,
        task: TaskConfig,
        config: DockerConfig,
        request: dict[str, object],
        start: _Start,
    ) -> Container:
        """A thread cannot be cancelled: when its task is destroyed during the pull of the image, it
        makes no container any more; `destroy_task` waits for a thread that is making one."""
        if config.force_pull or not engine.has_image(config.image):
            given = config.credentials
            login = {"username": given.username, "password": given.password} if given else None
            engine.pull(config.image, duration_s(config.image_pull_timeout), login)
        with start.making:
            if start.is_abandoned:
                raise DriverError(f"cannot start task {task.key}: it was ended meanwhile")
            return self._make(engine, task, request)

    def _make(self, engine: Engine, task: TaskConfig, request: dict[str, object]) -> Container:
        """Create and start the container. One that exists was started before a crash, and stays."""
        container = engine.inspect(engine.create(container_name(task), request))
        if container.labels.get(KEY_LABEL) != task.key:
            raise DriverError(f"cannot start: another container is named {container_name(task)}")
        if container.status == "created":
            try:
                engine.start(container.id)
            except DriverError:
                engine.remove(container.id)
                raise
        return engine.inspect(container.id)

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
        with contextlib.suppress(OSError):  # a full disk costs output, not the task
            self._positions.mkdir(parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        end = self._ends[handle.key] = loop.create_future()

        def set_end(result: ExitResult) -> None:
            if not end.done():
                end.set_result(result)

        def ended(result: ExitResult) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(set_end, result)

        follower = LogFollower(
            engine,
            handle.state["container"],
            _log_files(handle.state),
            self._positions / group_name(handle.key),
            ended,
        )
        self._followers[handle.key] = follower
        follower.start()

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
        end = self._ends.pop(handle.key, None)
        if end is not None:
            end.cancel()
        await self._call(self._remove, engine, handle)
        (self._positions / group_name(handle.key)).unlink(missing_ok=True)

    def _remove(self, engine: Engine, handle: TaskHandle) -> None:
        """By its label: a start that a crash cut short has left no id."""
        start = self._starts.get(handle.key) or _Start()
        start.is_abandoned = True
        with start.making:
            for container in engine.find(f"{KEY_LABEL}={handle.key}"):
                engine.remove(container)
        self._starts.pop(handle.key, None)

    async def end_orphans(self, is_known: Callable[[str], bool]) -> None:
        if not self._engine_expected():
            return
        engine = await self._connected()
        for container in await self._call(engine.find, f"{OWNER_LABEL}={self._owner}"):
            found = await self._call(engine.inspect, container)
            if not is_known(found.labels.get(ALLOC_LABEL, "")):
                _log.warning("removing a container of no allocation", container=container[:12])
                await self._call(engine.remove, container)

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
        self._threads.shutdown(wait=False, cancel_futures=True)
        for end in self._ends.values():
            end.cancel()
        if self._engine is not None:
            self._engine.close()


class _Start:
    def __init__(self) -> None:
        self.making = threading.Lock()
        """Held from the creation of the container to its start."""
        self.is_abandoned = False


def _collect(engine: Engine, exec_id: str, output: bytearray) -> None:
    for data in engine.exec_output(exec_id):
        output += data
        del output[: max(0, len(output) - OUTPUT_LIMIT_BYTES)]


def _kill_exec(engine: Engine, exec_id: str) -> None:
    """Kill the process of a command, on the same machine: the engine cannot end a command."""
    running, _, pid = engine.exec_status(exec_id)
    if running and pid and os.path.exists(f"/proc/{pid}"):
        os.kill(pid, 9)


def _log_state(container: str, streams: list[LogStream]) -> dict[str, str]:
    """What `_log_files` needs after a restart of the agent."""
    state = {"container": container}
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
