"""The node agent: builds every part in order, starts them, and stops them leaving tasks running."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from functools import partial

import structlog

from agent.allocations.garbage import AllocGarbageCollector
from agent.allocations.node_allocations import Allocations
from agent.allocations.stop_when_disconnected import DisconnectWatch
from agent.config import AgentConfig
from agent.connection.cluster_membership import ClusterMembership
from agent.connection.node_stream import ServerLink
from agent.connection.server_calls import ServerCalls
from agent.context import NodeContext
from agent.csi.plugins import CsiPlugins, PluginTask
from agent.csi.volumes import CsiVolumes
from agent.devices.registry import load_devices
from agent.devices.watch import watch_devices
from agent.drivers import cgroups
from agent.drivers.base import Driver, EndsOrphans
from agent.drivers.lost import LostDriver, drivers_in_use
from agent.drivers.registry import DriverContext, load_drivers
from agent.fingerprint.drivers import DriverWatch
from agent.fingerprint.node import fingerprint_node
from agent.hooks.csi_plugin import SOCKET, health_timeout_s, plugin_name, seen_root
from agent.hooks.secrets_mount import SecretsMounts
from agent.identities.task_api import TaskApi
from agent.integrations import start_integrations, template_sources
from agent.local_state.store import LocalState
from agent.loops import spawn, until_done
from agent.metrics.hook_times import HookTimes
from agent.metrics.task_usage import UsageSampler
from agent.migration.remote_data import RemoteData
from agent.networks.alloc_networks import AllocNetworks, namespace_dir
from agent.node.description import NodeDescription, fingerprint_config
from agent.node.facts import NodeFacts
from agent.node.host_volumes import DynamicHostVolumes, volumes_root
from agent.node.volume_plugins import VolumePlugins
from agent.paths import csi_root, csi_socket_directory
from agent.serve.guard import NodeAccess
from agent.services.registrations import ServiceTable
from agent.supervisor.client import SupervisorClient
from agent.tasks.environment import host_env
from agent.tasks.task_state import TaskEventType
from agent.templates.cluster_reads import ClusterReads, ReadSettings
from agent.templates.renderer import TemplateRenderer
from agent.templates.settings import NodeTemplates
from agent.vault.tokens import Vault
from orchgit.clock import Clock, SystemClock
from orchgit.directory_lock import lock_directory
from orchgit.errors import OrchgitError, UnavailableError
from orchgit.ids import IdSource, RandomIds
from orchgit.metrics.push import push_forever
from orchgit.metrics.values import Metric
from orchgit.model.node import Node
from orchgit.model.volume import HostVolume
from orchgit.model.workload_identity import SignedIdentity
from orchgit.wire.channel import Channel
from orchgit.wire.https import asking_context
from orchgit.wire.messages import (
    AgentFrame,
    AllocReport,
    AllocSet,
    CsiAnswer,
    CsiCall,
    HttpDown,
    HttpUp,
    ServerFrame,
    TaskRead,
    TaskReadsReply,
    VolumeResult,
)
from orchgit.wire.methods import CONNECT_NODE

__all__ = ["Agent", "AgentConfig"]

_log = structlog.get_logger(component="agent")

_DRIVERS_WAIT_S = 0.5
_ANSWER_S = 10.0


class Agent:
    """One node's agent. `start` returns without waiting for a server: the connection is tried until
    one answers; `connected` is set while a server is there."""

    def __init__(
        self, config: AgentConfig, clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self.services = ServiceTable()
        template = config.template
        self._templates = NodeTemplates(
            TemplateRenderer(),
            ClusterReads(
                self._read_for_tasks,
                self.clock,
                ReadSettings(
                    region=config.region,
                    wait_s=template.query_wait_s,
                    first_backoff_s=template.first_backoff_s,
                    max_backoff_s=template.max_backoff_s,
                    is_shared=lambda: not (self.facts.acl or config.acl_enabled),
                ),
            ),
            template,
        )
        for source in template_sources(config):
            self._templates.reads.add_source(source)
        self.local: LocalState
        self.networks: AllocNetworks
        self.drivers: dict[str, Driver] = {}
        self.usage: UsageSampler
        self.allocations: Allocations
        self.volumes: DynamicHostVolumes
        self.facts: NodeFacts
        self.description: NodeDescription
        self._lock_fd = -1
        self._sweeps: list[asyncio.Task[None]] = []
        self._identity: SignedIdentity | None = None
        self.reload: Callable[[], None] | None = None
        """Reads configuration and certificates again."""
        self.is_started = False
        """Whether every part exists."""

    async def start(self) -> None:
        config = self.config
        self._lock_fd = lock_directory(config.client_dir, config.data_dir)
        config.alloc_root.mkdir(parents=True, exist_ok=True, mode=0o711)
        self.local = LocalState(config.client_dir / "state.db")
        self.facts = facts = NodeFacts(self.local, self._ids)
        self._calls = ServerCalls(
            lambda: self.link.address,
            config.tls,
            facts.identity.node_id,
            facts.identity.secret_id,
        )
        self._task_api = TaskApi(self._calls.task_request)
        self.link = ServerLink(
            list(dict.fromkeys([*config.servers, *facts.servers])),
            self,
            self.clock,
            self._open_stream,
            self.node_id,
            ask_leader=self._calls.ask_leader,
            membership=ClusterMembership(facts.cluster, facts.put_cluster),
        )
        self.csi = CsiPlugins(
            self._plugin_tasks, self.clock, self._changed, self._end_silent_plugin
        )
        self.csi_volumes = CsiVolumes(
            csi_root(config.alloc_root), self.csi, self.clock, self._calls.claim_volume
        )
        self._volume_plugins = volume_plugins = VolumePlugins(
            volumes_root(config.data_dir),
            config.host_volume_plugin_dir or config.data_dir / "host_volume_plugins",
            {"DHV_NODE_ID": self.node_id, "DHV_NODE_POOL": config.node_pool},
        )
        self.volumes = DynamicHostVolumes(volume_plugins, self.local, self._changed)
        self.description = NodeDescription(
            config, facts, self.volumes, volume_plugins, self.csi, self.link.node_changed
        )
        await volume_plugins.find()
        await self.volumes.restore()
        await self._start_drivers()
        self.networks = AllocNetworks(
            config.group_networks,
            config.client_dir / "networks",
            namespace_dir(config.data_dir),
            self.drivers,
            self.clock,
        )
        self.hook_times = HookTimes()
        self.allocations = Allocations(self._node_context(), self.link.report)
        stored = self.local.allocations()
        for name in sorted(drivers_in_use(stored) - self.drivers.keys()):
            _log.warning("tasks run whose driver this node has no more", driver=name)
            self.drivers[name] = LostDriver(name, self._supervisor)
        await self._end_orphans({entry.alloc.id for entry in stored})
        self.offline = DisconnectWatch(self.allocations, self.clock)
        self.garbage = AllocGarbageCollector(
            self.allocations, config.garbage, config.alloc_root, self.clock
        )
        self.allocations.restore(stored)
        work = partial(self.networks.sweep_forever, self.allocations.is_live)
        self._sweeps.append(spawn(until_done(work, "networks", self.clock), "networks"))
        known = self.node().node_resources.devices or []
        work = partial(
            watch_devices, self.devices, known, self.description.devices_changed, self.clock
        )
        self._sweeps.append(spawn(until_done(work, "devices", self.clock), "devices"))
        telemetry = self.config.telemetry
        if telemetry.push.is_on:

            async def collect() -> list[Metric]:
                from agent.metrics.node_metrics import node_metrics

                return telemetry.filter.of(await node_metrics(self))

            pushing = push_forever(telemetry.push, collect, self.clock)
            self._sweeps.append(spawn(pushing, "metrics"))
        for name, driver in self.drivers.items():
            if isinstance(driver, EndsOrphans):
                work = partial(driver.end_orphans, self.allocations.knows)
                label = f"orphans of {name}"
                self._sweeps.append(spawn(until_done(work, label, self.clock), label))
        unmounting = partial(self.csi_volumes.keep_unmounting_left, self.allocations.is_live)
        label = "CSI volumes of ended allocations"
        self._sweeps.append(spawn(until_done(unmounting, label, self.clock), label))
        self._sweeps += start_integrations(config, self.description, self.services, self.clock)
        self.offline.start()
        self.garbage.start()
        self.csi.start()
        self.link.start()
        self.is_started = True

    def find_plugins_again(self) -> None:
        """Looks for plugins of host volumes again, and makes volumes that lacked theirs."""

        async def look() -> None:
            await self._volume_plugins.find()
            self.description.changed()
            await self.volumes.try_again()

        self._sweeps = [each for each in self._sweeps if not each.done()]
        self._sweeps.append(spawn(look(), "plugins of host volumes"))

    async def stop(self) -> None:
        """End every loop and connection; tasks run on, and the next start finds them again."""
        for sweep in self._sweeps:
            sweep.cancel()
        await asyncio.gather(*self._sweeps, return_exceptions=True)
        await self.link.stop()
        await self.volumes.stop()
        await self.garbage.stop()
        await self.csi.stop()
        await self.offline.stop()
        await self._watch.stop()
        await self.allocations.close()
        await self._task_api.close()
        await self._calls.close()
        await self._templates.reads.close()
        await self._templates.renderer.close()
        for driver in self.drivers.values():
            await driver.close()
        self.devices.close()
        await self._supervisor.close()
        self.local.close()
        os.close(self._lock_fd)

    @property
    def connected(self) -> asyncio.Event:
        return self.link.connected

    @property
    def node_id(self) -> str:
        return self.facts.identity.node_id

    # -- what the connection asks for -------------------------------------------------------------

    @property
    def introduction(self) -> str:
        return self.config.intro_token

    def node(self) -> Node:
        return self.description.node()

    def full_report(self) -> list[AllocReport]:
        return self.allocations.full_report()

    def take_allocations(self, wanted: AllocSet) -> None:
        self.allocations.take(wanted)

    def take_volumes(self, volumes: list[HostVolume]) -> None:
        spawn(self.volumes.take(volumes), "host volumes")

    def _plugin_tasks(self) -> Iterator[PluginTask]:
        """The running tasks that are CSI plugins."""
        root = csi_root(self.config.alloc_root)
        for runner in self.allocations:
            for task in runner.tasks.values():
                if task.task.csi_plugin_config is not None and task.handle is not None:
                    kind, plugin_id = plugin_name(task.task)
                    directory = csi_socket_directory(root, runner.id, task.task.name)
                    yield PluginTask(
                        plugin_id,
                        kind,
                        runner.id,
                        directory / SOCKET,
                        task.name,
                        str(root),
                        seen_root(task.task, self.drivers[task.task.driver].isolation),
                        health_timeout_s(task.task),
                        task.handle.key,
                    )

    def _end_silent_plugin(self, plugin: PluginTask, why: str) -> None:
        said = f'CSI plugin "{plugin.plugin_id}" is not healthy: {why}'
        if self.allocations.knows(plugin.alloc_id):  # it may be gone since the plugin was asked
            self.allocations.get(plugin.alloc_id).restart_failed(plugin.task_name, said)

    async def answer_csi(self, call: CsiCall) -> CsiAnswer:
        return await self.csi_volumes.answer(call)

    def volume_results(self) -> list[VolumeResult]:
        return self.volumes.results()

    def take_servers(self, servers: list[str]) -> None:
        if self.facts.put_servers(servers):
            self.link.use_servers(servers)

    def contact_changed(self, connected: bool) -> None:
        self.offline.contact_changed(connected)
        if connected:
            self._templates.reads.reconnected()

    # -- parts -------------------------------------------------------------------------------------

    async def _start_drivers(self) -> None:
        config = self.config
        layout = cgroups.detect()
        self.devices = load_devices(config.drivers)
        self._supervisor = SupervisorClient(config.client_dir / "supervisor")
        self.drivers = load_drivers(
            DriverContext(
                data_dir=config.data_dir,
                supervisor=self._supervisor,
                cgroups=layout,
                clock=self.clock,
                options=config.drivers,
                allowlist=config.driver_allowlist,
                denylist=config.driver_denylist,
                report=self._driver_event,
            )
        )
        self.usage = UsageSampler(self.drivers, self.node, self.clock)
        self._watch = DriverWatch(dict(self.drivers), self.clock, self.description.drivers_changed)
        _, infos, fingerprint = await asyncio.gather(
            self._supervisor.connect(),
            self._watch.start(_DRIVERS_WAIT_S),
            asyncio.to_thread(
                fingerprint_node, fingerprint_config(config), layout.mode, self.devices
            ),
        )
        self.description.found(fingerprint, infos)

    def _node_context(self) -> NodeContext:
        environ = self.config.host_env
        files = self.config.tls or (self.config.http_tls.files if self.config.http_tls else None)
        return NodeContext(
            devices=self.devices,
            clock=self.clock,
            local=self.local,
            drivers=self.drivers,
            node=self.node,
            region=self.config.region,
            host_env=(
                host_env(os.environ, self.config.task_env_allow)
                if environ is None
                else dict(environ)
            ),
            fetch_limits=self.config.artifact,
            alloc_root=self.config.alloc_root,
            services=self.services,
            wait_ended=lambda alloc_id: self.allocations.wait_ended(alloc_id),
            templates=self._templates,
            hook_times=self.hook_times,
            max_kill_timeout_s=self.config.max_kill_timeout_s,
            sign_identities=self._calls.sign_identities,
            task_api=self._task_api,
            secrets=SecretsMounts(is_possible=os.geteuid() == 0),
            networks=self.networks,
            csi=self.csi_volumes,
            vault=None if self.config.vault is None else Vault(self.config.vault),
            take_over=RemoteData(
                self._calls.migration_source,
                self.clock,
                None if files is None else partial(asking_context, files),
            ).take_over,
        )

    async def _end_orphans(self, known: set[str]) -> None:
        """Tasks of allocations that this node's state does not know (the state was lost, or an
        allocation was removed just before a crash) must not run on unseen."""
        for report in await self._supervisor.list():
            if report.key.split("/")[0] in known:
                continue
            _log.warning("ending a task that belongs to no allocation", task=report.key)
            with contextlib.suppress(OrchgitError):
                if not report.ended:
                    await self._supervisor.stop(report.key, signal.SIGKILL, 0)
                    await self._supervisor.wait(report.key)
                await self._supervisor.ack(report.key)

    async def _open_stream(
        self, address: str, frames: AsyncIterator[AgentFrame]
    ) -> AsyncGenerator[ServerFrame]:
        channel = Channel(address, self.config.tls)
        try:
            async with contextlib.aclosing(channel.stream(CONNECT_NODE, frames)) as received:
                async for frame in received:
                    yield frame
        finally:
            await channel.close()

    def access(self) -> NodeAccess:
        """What checks who asks for this agent's own HTTP."""
        identity, is_on = self.facts.identity, self.facts.acl or self.config.acl_enabled
        return NodeAccess(
            identity.node_id, identity.secret_id, self.clock, is_on, self._calls.authorize
        )

    def ask_server(self, frames: AsyncIterator[HttpUp]) -> AsyncGenerator[HttpDown]:
        """Returns the answer of the server in use to a request that came to this agent."""
        return self._calls.agent_request(frames)

    def take_acl(self, acl: bool) -> None:
        self.facts.put_acl(acl)

    async def identity(self, renewed: bool = False) -> str:
        """Returns the node's own token; `renewed`: a new one. Raises UnavailableError while no
        server is connected, or where the server knows of none."""
        known, now_ns = self._identity, self.clock.now_ns()
        if renewed or known is None or known.expires_ns <= now_ns:
            self._identity = known = await self._calls.own_identity()
        if known is None:
            raise UnavailableError("cannot get the node's identity: its server makes none")
        return known.token

    def _driver_event(self, alloc_id: str, task: str, message: str) -> None:
        if self.allocations.knows(alloc_id):
            runner = self.allocations.get(alloc_id).tasks.get(task)
            if runner is not None:
                runner.happened(TaskEventType.DRIVER, message)

    async def _read_for_tasks(self, reads: list[TaskRead], wait_s: float) -> TaskReadsReply:
        return await self._calls.read_for_tasks(reads, wait_s)

    def _changed(self) -> None:
        self.description.changed()

    def change_metadata(self, changes: Mapping[str, str | None]) -> None:
        """Set metadata of the node at run time; restarts of the agent keep it."""
        self.facts.change_meta(changes)
        self.description.changed()
