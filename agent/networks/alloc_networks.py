"""Sets the network of an allocation up before its first task, and removes it after the last one.

What is needed to remove a network is on disk before the network is made. So after a crash of the
agent a network is found again whole, made anew, or removed; and networks of allocations that the
agent does not know are removed at its start.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from agent.drivers.base import CreatedNetwork, CreatesNetworks, Driver, NetworkIsolation
from agent.drivers.base import NetworkRequest as DriverRequest
from agent.drivers.locks import StartLocks
from agent.networks import bridge, namespaces
from agent.networks.cni import configuration, plugins, results, run
from agent.networks.cni.configuration import NetworkList
from agent.networks.cni.results import ConnectedInterface
from agent.networks.config import GroupNetworkConfig
from agent.networks.host_ports import ports_in_use
from agent.networks.records import NetworkRecord, NetworkRecords
from agent.networks.wanted import BRIDGE, NONE, PortMapping, WantedNetwork
from orchgit.clock import Clock, SystemClock
from orchgit.errors import DriverError, OrchgitError

_log = structlog.get_logger(component="agent")

_RUN_DIR = "/run/orchgit"
_TRIES, _RETRY_S = 3, 0.2
_SET_UP_TIMEOUT_S = 180.0
_SWEEP_INTERVAL_S = 60.0
_LOCK_TRIES, _LOCK_RETRY_S = 900, 0.1  # longer than a plugin may take
_AT_ONCE = 8
"""Networks that are set up or removed at the same time: each runs several programs."""


class AllocNetworks:
    """`directory` holds the records (on disk), `namespace_dir` the namespaces (below /run)."""

    def __init__(
        self,
        config: GroupNetworkConfig,
        directory: Path,
        namespace_dir: Path,
        drivers: Mapping[str, Driver],
        clock: Clock,
    ) -> None:
        self._config = config
        self._records = NetworkRecords(directory)
        self._namespace_dir = namespace_dir
        self._drivers = drivers
        self._clock = clock
        self._locks = StartLocks()
        self._bridge_lock = asyncio.Lock()
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._lock_fds: dict[str, int] = {}

    @property
    def maps_any_address(self) -> bool:
        """Whether mapped ports accept connections on every address of the node."""
        return self._config.bind_wildcard

    async def set_up(
        self, wanted: WantedNetwork, driver: str, is_idle: bool = False
    ) -> NetworkIsolation:
        """Returns the allocation's network: the one that is there, or a new one.

        `driver` makes the namespace; "" is the agent itself. Where `is_idle` (no task uses the
        network now) the plugins are asked whether it still is as it was made; if not, it is made
        anew. DriverError when it cannot be made; what was made of it is removed then.
        """
        async with self._locks.of(wanted.alloc_id), self._at_work(wanted.alloc_id):
            record = await asyncio.to_thread(self._records.read, wanted.alloc_id)
            if record is not None:
                try:
                    await self._check(record, ask_plugins=is_idle)
                    return _isolation(record)
                except DriverError as error:
                    if record.complete:
                        _log.warning(
                            "making the network of an allocation anew",
                            alloc=wanted.alloc_id,
                            error=str(error),
                        )
                await self._delete(record)
            async with self._places:
                try:
                    async with asyncio.timeout(_SET_UP_TIMEOUT_S):
                        return await self._make(wanted, driver)
                except TimeoutError:
                    raise DriverError(
                        f"cannot set up the network of mode {wanted.mode}: it took longer than "
                        f"{_SET_UP_TIMEOUT_S:g} s",
                        recoverable=True,
                    ) from None

    async def remove(self, alloc_id: str) -> None:
        """Remove the allocation's network, if it has one. What fails is tried again by `sweep`."""
        async with self._locks.of(alloc_id):
            record = await asyncio.to_thread(self._records.read, alloc_id)
            if record is None:
                return
            try:
                async with self._places, self._at_work(alloc_id):
                    await self._delete(record)
            except (OrchgitError, OSError) as error:
                _log.warning(
                    "cannot remove the network of an allocation now; trying again later",
                    alloc=alloc_id,
                    error=str(error),
                )

    async def sweep(self, is_wanted: Callable[[str], bool]) -> None:
        """Remove the networks of allocations that have ended, or that the agent does not know."""
        for alloc_id in await asyncio.to_thread(self._records.ids):
            if not is_wanted(alloc_id):
                await self.remove(alloc_id)
        for path in await asyncio.to_thread(self._namespace_files):
            if not is_wanted(path.name):
                await self._remove_unrecorded(path)

    async def sweep_forever(self, is_wanted: Callable[[str], bool]) -> None:
        """Sweep at once, and then in each interval."""
        while True:
            await self.sweep(is_wanted)
            await self._clock.sleep(_SWEEP_INTERVAL_S)

    @contextlib.asynccontextmanager
    async def _at_work(self, alloc_id: str) -> AsyncIterator[None]:
        """Waits until no plugin is at work on the network that an agent started which was killed.

        DriverError when such a plugin does not end.
        """
        lock_fd = await asyncio.to_thread(self._records.open_lock, alloc_id)
        try:
            for _ in range(_LOCK_TRIES):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                await self._clock.sleep(_LOCK_RETRY_S)
            else:
                raise DriverError(
                    "cannot change the network: a plugin of an earlier agent is still at work",
                    recoverable=True,
                )
            self._lock_fds[alloc_id] = lock_fd
            yield
        finally:
            self._lock_fds.pop(alloc_id, None)
            self._records.close_lock(alloc_id, lock_fd)

    # -- checking ----------------------------------------------------------------------------------

    async def _check(self, record: NetworkRecord, ask_plugins: bool) -> None:
        """DriverError when the network is not as it was made."""
        identity = namespaces.identity(record.namespace)
        if not record.complete or not identity or identity != record.namespace_identity:
            raise DriverError("cannot find the network again: it is gone")
        if ask_plugins and record.network is not None and record.result is not None:
            await run.check(self._attachment(record, record.network), record.result)

    # -- making ------------------------------------------------------------------------------------

    async def _make(self, wanted: WantedNetwork, driver: str) -> NetworkIsolation:
        network = self._network_list(wanted)
        if taken := await asyncio.to_thread(ports_in_use, wanted):
            raise DriverError(
                f"cannot map {', '.join(taken)}: in use by another process of the node"
            )
        namespace = self._namespace_dir / wanted.alloc_id
        record = NetworkRecord(
            wanted=wanted,
            namespace=str(namespace),
            namespace_identity="",
            created_by=driver,
            network=network,
            search_path=self._config.cni_path,
        )
        await asyncio.to_thread(self._records.write, record)
        try:
            made = await self._make_namespace(wanted, driver, namespace)
            record = msgspec.structs.replace(
                record,
                namespace=made.namespace,
                namespace_identity=namespaces.identity(made.namespace),
                state=made.state,
            )
            if network is not None:
                record = await self._connect(record, network)
            record = msgspec.structs.replace(record, complete=True)
            await asyncio.to_thread(self._records.write, record)
        except (OrchgitError, OSError):
            await self._delete(record)
            raise
        return _isolation(record)

    def _network_list(self, wanted: WantedNetwork) -> NetworkList | None:
        if wanted.mode == NONE:
            return None
        if wanted.mode == BRIDGE:
            return bridge.network_list(self._config)
        found = configuration.load(self._config.cni_config_dir).get(wanted.cni_name)
        if found is None:
            raise DriverError(
                f'cannot set up the network: no CNI network "{wanted.cni_name}" in '
                f"{self._config.cni_config_dir}"
            )
        return found

    async def _make_namespace(
        self, wanted: WantedNetwork, driver: str, path: Path
    ) -> CreatedNetwork:
        if not driver:
            await namespaces.create(path)
            return CreatedNetwork(namespace=str(path))
        request = DriverRequest(alloc_id=wanted.alloc_id, hostname=wanted.name)
        made = await self._creator(driver).create_network(request)
        if not namespaces.exists(made.namespace):
            raise DriverError(
                f"cannot use the network namespace {made.namespace} of driver {driver}: it is not "
                "there",
                recoverable=True,
            )
        return made

    async def _connect(self, record: NetworkRecord, network: NetworkList) -> NetworkRecord:
        """Call the plugins. What a plugin refuses may succeed at the next try: iptables is locked,
        an address is just being freed."""
        attachment = self._attachment(record, network)

        async def store(result: dict[str, Any]) -> None:
            partial = msgspec.structs.replace(record, result=result)
            await asyncio.to_thread(self._records.write, partial)

        for failures in range(_TRIES):
            try:
                result = await run.add(attachment, store)
                break
            except plugins.PluginError:
                if failures == _TRIES - 1:
                    raise
                await run.delete(attachment, None)
                await self._clock.sleep(_RETRY_S * 2**failures)
        if record.wanted.mode == BRIDGE:
            async with self._bridge_lock:
                await bridge.accept_mapped_ports(self._config)
        return msgspec.structs.replace(
            record, result=result, interface=results.connected_interface(result, run.INTERFACE)
        )

    # -- removing ----------------------------------------------------------------------------------

    async def _delete(self, record: NetworkRecord) -> None:
        """DriverError, with the record kept, when a plugin or a driver fails."""
        alloc_id = record.wanted.alloc_id
        if record.network is not None:
            result = record.result
            if result is None and record.wanted.mode == BRIDGE:
                result = await asyncio.to_thread(bridge.known_result, self._config, alloc_id)
            await run.delete(self._attachment(record, record.network), result)
            if record.wanted.mode == BRIDGE:
                await bridge.remove_masquerading(self._config, alloc_id)
        if record.created_by:
            await self._creator(record.created_by).destroy_network(alloc_id)
        await asyncio.to_thread(namespaces.remove, self._namespace_dir / alloc_id)
        await asyncio.to_thread(self._records.remove, alloc_id)

    async def _remove_unrecorded(self, path: Path) -> None:
        """A namespace without a record: the data directory was lost. The bridge may know it; the
        plugin of mapped ports removes all of an allocation's where it is told any."""
        _log.warning("removing the network of an unknown allocation", alloc=path.name)
        any_port = PortMapping(host_port=1, container_port=1, protocol="tcp")
        wanted = WantedNetwork(alloc_id=path.name, mode=BRIDGE, ports=[any_port])
        record = NetworkRecord(
            wanted=wanted,
            namespace=str(path),
            namespace_identity=namespaces.identity(path),
            network=bridge.network_list(self._config),
            search_path=self._config.cni_path,
        )
        try:
            async with self._at_work(path.name):
                await self._delete(record)
        except (OrchgitError, OSError) as error:
            _log.warning("cannot remove a network", alloc=path.name, error=str(error))

    def _namespace_files(self) -> list[Path]:
        if not self._namespace_dir.is_dir():
            return []
        recorded = set(self._records.ids())
        return [path for path in self._namespace_dir.iterdir() if path.name not in recorded]

    def _attachment(self, record: NetworkRecord, network: NetworkList) -> run.Attachment:
        return run.Attachment(
            container_id=record.wanted.alloc_id,
            namespace=record.namespace if namespaces.exists(record.namespace) else "",
            network=network,
            search_path=record.search_path,
            arguments=record.wanted.arguments,
            lock_fd=self._lock_fds.get(record.wanted.alloc_id, -1),
            capabilities={"portMappings": msgspec.to_builtins(record.wanted.ports)},
        )

    def _creator(self, name: str) -> CreatesNetworks:
        driver = self._drivers.get(name)
        if not isinstance(driver, CreatesNetworks):
            raise DriverError(f'cannot use the network of driver "{name}": the node has none')
        return driver


def namespace_dir(data_dir: Path) -> Path:
    """Where the namespaces of the node with this data directory are mounted."""
    node = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:12]
    return Path(_RUN_DIR, node, "networks")


async def remove_networks(data_dir: Path) -> None:
    """Removes every network that the agent of this data directory has made, after its end. Those
    that a driver made are left to the driver."""
    networks = AllocNetworks(
        GroupNetworkConfig(),
        data_dir / "client" / "networks",
        namespace_dir(data_dir),
        {},
        SystemClock(),
    )
    await networks.sweep(lambda _alloc_id: False)


def _isolation(record: NetworkRecord) -> NetworkIsolation:
    wanted, interface = record.wanted, record.interface or ConnectedInterface()
    return NetworkIsolation(
        mode=wanted.mode,
        namespace=record.namespace,
        hostname=wanted.hostname,
        interface=interface.name,
        address=interface.address,
        address_ipv6=interface.address_ipv6,
        dns=wanted.dns or interface.dns,
        created_by=record.created_by,
        state=record.state,
    )
