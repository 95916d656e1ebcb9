"""The contract between the task runner and a driver, and the data that crosses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec

from orchgit.model.node import DriverInfo
from orchgit.model.resources import DNSConfig
from orchgit.model.task import LogConfig

__all__ = ["DriverInfo", "LogConfig"]


class TaskDir(msgspec.Struct, frozen=True):
    """Absolute paths on the host; they exist before a task is started."""

    alloc_dir: str
    """Shared by the allocation's tasks (`NOMAD_ALLOC_DIR` of tasks that see the host's files)."""
    task_dir: str
    """The task's own directory, in which `local_dir`, `secrets_dir` and `tmp` are."""
    local_dir: str
    secrets_dir: str
    log_dir: str


class Mount(msgspec.Struct, frozen=True):
    """A volume: a path of the host seen by the task at `task_path`."""

    host_path: str
    task_path: str
    read_only: bool = False
    is_shared: bool = False
    """What the task mounts below it is seen by the host, and what the host mounts by the task."""


class TaskResources(msgspec.Struct, frozen=True):
    cpu_shares: int = 100
    """MHz reserved."""
    reserved_cores: tuple[int, ...] = ()
    memory_mb: int = 300
    memory_max_mb: int = 0
    """0: the limit is `memory_mb`."""
    cpu_fraction: float = 0.0
    """`cpu_shares` as a part of all the node's MHz, 0 to 1."""


class TaskPort(msgspec.Struct, frozen=True):
    label: str
    host_port: int
    task_port: int = 0
    """0: the same as the host's."""
    host_ip: str = ""


class NetworkIsolation(msgspec.Struct, frozen=True, kw_only=True):
    """The network that the tasks of a group share, where it is not the host's.

    It is complete before a task starts: interfaces are up, addresses are given, ports are mapped.
    A driver starts the task in `namespace` and publishes no ports. Where the task has a root file
    system of its own, the driver mounts `hosts_file` at /etc/hosts and `resolv_conf` at
    /etc/resolv.conf ("": nothing to mount), and sets `hostname` ("": the driver's choice).
    """

    mode: str
    """`bridge`, `none` or `cni/NAME`."""
    namespace: str
    """A path for setns(2), for the `path` of an OCI network namespace, for podman's `path` mode."""
    hostname: str = ""
    hosts_file: str = ""
    resolv_conf: str = ""
    interface: str = ""
    """Name, IPv4 and IPv6 address inside the namespace; "" where there is none."""
    address: str = ""
    address_ipv6: str = ""
    dns: DNSConfig | None = None
    """What `resolv_conf` says; None: as the host has it."""
    created_by: str = ""
    """The driver whose `create_network` made the namespace; "": the agent made it."""
    state: dict[str, str] = {}
    """What `create_network` returned: docker's `container`, which tasks join by `container:ID`."""

    def with_files(self, hosts_file: str, resolv_conf: str) -> NetworkIsolation:
        """The same network with the files of one task."""
        return msgspec.structs.replace(self, hosts_file=hosts_file, resolv_conf=resolv_conf)


class NetworkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver must know to make the network namespace of an allocation."""

    alloc_id: str
    hostname: str = ""


class CreatedNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace that a driver made: its loopback interface is there, and nothing else."""

    namespace: str
    state: dict[str, str] = {}


@runtime_checkable
class CreatesNetworks(Protocol):
    """A driver whose tasks can join only a namespace that its own engine made.

    docker is one: its tasks join the network of a pause container. If a task of a group uses such a
    driver, this driver makes the namespace for all tasks of the group.
    """

    async def create_network(self, request: NetworkRequest) -> CreatedNetwork:
        """Make the namespace, or return the one that this allocation has: a call may be repeated
        after any crash. The namespace lives until `destroy_network`, also without the agent.

        DriverError when it cannot; `recoverable` says that the same call may succeed later.
        """

    async def destroy_network(self, alloc_id: str) -> None:
        """Remove it. May be repeated; an allocation without a namespace is no error."""


class DriverNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The address that a driver itself gave to a task (docker's own bridge)."""

    ip: str = ""
    ports: dict[str, int] = {}
    """The port inside, by label."""
    auto_advertise: bool = False
    """Whether services with `address_mode = "auto"` are registered at this address."""


class TaskDevices(msgspec.Struct, frozen=True, kw_only=True):
    """What a task may use of the node's devices. A driver without isolation ignores `nodes`."""

    env: dict[str, str] = {}
    nodes: tuple[str, ...] = ()
    """Device files, which the task sees at the same paths."""
    mounts: tuple[Mount, ...] = ()
    nvidia_gpus: tuple[str, ...] = ()
    """Ids, for engines that make GPUs visible themselves."""


class TaskConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a driver needs to start one attempt of one task."""

    alloc_id: str
    task_name: str
    attempt: int
    """Counts the starts of this task of this allocation; a start is repeated with the same one."""
    task_dir: TaskDir
    job_id: str = ""
    job_name: str = ""
    namespace: str = ""
    task_group: str = ""
    node_id: str = ""
    node_name: str = ""
    config: dict[str, object] = {}
    """The job's `config` block, interpolated."""
    env: dict[str, str] = {}
    user: str = ""
    """"" means the driver's own choice."""
    resources: TaskResources = TaskResources()
    mounts: tuple[Mount, ...] = ()
    ports: tuple[TaskPort, ...] = ()
    devices: TaskDevices = TaskDevices()
    network: NetworkIsolation | None = None
    """None: the network of the host, or what the driver's own options say."""
    logs: LogConfig = msgspec.field(default_factory=LogConfig)
    kill_signal: str = ""
    kill_timeout_s: float = 5.0

    @property
    def key(self) -> str:
        """Names the attempt: at most one process is ever started for it."""
        return f"{self.alloc_id}/{self.task_name}/{self.attempt}"


class TaskHandle(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent stores to find a task again after any crash. It holds no secret."""

    driver: str
    key: str
    started_ns: int
    pid: int = 0
    """0 where the driver does not know it."""
    kill_signal: str = ""
    kill_timeout_s: float = 5.0
    state: dict[str, str] = {}
    """The driver's own."""
    network: DriverNetwork | None = None


class ExitResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a task ended. An unknown exit code (-1) always comes with an `error`."""

    exit_code: int = 0
    """128 + the signal's number for a task that a signal ended."""
    signal: int = 0
    oom_killed: bool = False
    error: str = ""
    finished_ns: int = 0

    @property
    def successful(self) -> bool:
        return self.exit_code == 0 and self.signal == 0 and not self.error


class TaskStats(msgspec.Struct, frozen=True, kw_only=True):
    """Use of resources at one moment; counters only grow while the task runs."""

    memory_bytes: int = 0
    cpu_ns: int = 0
    """Processor time used since the start, of all processes together."""
    pids: tuple[int, ...] = ()


class ExecResult(msgspec.Struct, frozen=True):
    output: bytes
    """stdout and stderr in the order written, the last part of it if there was much."""
    exit_code: int
    """-1 when the time-out ended it."""


class ExecSession(Protocol):
    """A command in a task's context with its streams open (`alloc exec`)."""

    async def write(self, data: bytes) -> None:
        """Send to its standard input."""

    async def close_stdin(self) -> None: ...

    async def read(self) -> tuple[str, bytes]:
        """("stdout" | "stderr", data); data is empty when both streams have ended."""

    def resize(self, rows: int, columns: int) -> None:
        """Only of effect on a terminal."""

    async def wait(self) -> int:
        """The command's exit code."""

    async def close(self) -> None:
        """Kill the command if it still runs, and release everything."""


ReportEvent = Callable[[str, str, str], None]
"""(allocation, task, sentence): what a driver tells of a task beside its start and its end. To be
called on the event loop."""


def no_events(alloc_id: str, task: str, message: str) -> None:
    """A `ReportEvent` that nobody reads."""


@runtime_checkable
class EndsOrphans(Protocol):
    """A driver whose tasks are not children of the supervisor, which ends its own orphans."""

    async def end_orphans(self, is_known: Callable[[str], bool]) -> None:
        """Destroy this node's tasks of allocations that `is_known` does not: the agent's state was
        lost. DriverError when the driver cannot find them now."""


@runtime_checkable
class ChecksUsers(Protocol):
    """A driver whose configuration names users that tasks may not run as."""

    def denies_user(self, name: str) -> bool: ...


class Driver(Protocol):
    """One way of running tasks.

    Errors are `DriverError`; `recoverable` says that the same call may succeed later. `start_task`
    may be repeated with the same attempt after any crash: it returns the handle of the task already
    started. Tasks outlive the agent: only `stop_task` and `destroy_task` end them.
    """

    name: str
    isolation: str
    """What a task sees of the files: "none" (the host's, at the host's paths), "chroot" or "image"
    (then its directories are /alloc, /local and /secrets)."""

    async def fingerprint(self) -> DriverInfo:
        """Whether the driver can be used on this node now; never raises."""

    async def start_task(self, task: TaskConfig) -> TaskHandle:
        """Start it; returns once the program runs. DriverError when it cannot."""

    async def recover_task(self, handle: TaskHandle) -> bool:
        """After a restart of the agent: whether the driver knows the task (running or ended)."""

    async def wait_task(self, handle: TaskHandle) -> ExitResult:
        """Wait for its end, however long ago that was; any number of waiters."""

    async def stop_task(
        self, handle: TaskHandle, timeout_s: float | None = None, signal: str = ""
    ) -> None:
        """Ask it to end, and kill it when `timeout_s` (default: the task's) is over.

        Returns when the task has ended. A task that has ended already is not an error.
        """

    async def destroy_task(self, handle: TaskHandle) -> None:
        """Forget it and everything left of it, killing it first if it runs. May be repeated.

        The handle's `driver` and `key` are enough: a start that a crash cut short left no more.
        """

    async def signal_task(self, handle: TaskHandle, signal: str) -> None:
        """Send one signal by name (`SIGHUP`) to its main process."""

    async def exec_task(
        self, handle: TaskHandle, command: list[str], timeout_s: float
    ) -> ExecResult:
        """Run a command in the task's context to its end."""

    async def exec_stream(self, handle: TaskHandle, command: list[str], tty: bool) -> ExecSession:
        """Start a command in the task's context with its streams open."""

    async def stats(self, handle: TaskHandle) -> TaskStats:
        """What it uses now; all zero when it has ended."""

    async def close(self) -> None:
        """Release the driver's own connections; tasks go on."""
