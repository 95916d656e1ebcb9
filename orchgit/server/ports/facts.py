"""What a server says of itself and its peers, in the forms of Nomad's agent API."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from orchgit import __version__, logs
from orchgit.control.leader import Control
from orchgit.control.workers.pool import WorkerPool
from orchgit.errors import UnavailableError
from orchgit.host_port import split_host_port
from orchgit.model.server import ServerRecord
from orchgit.replication.replicated import ReplicatedState
from orchgit.server.config import ServerConfig
from orchgit.services.cluster.server_directory import ServerDirectory

_NEVER_MS = 2**31 - 1
"""Reported while there has never been a leader."""


class Facts:
    """The `ServerFacts` of the API. `record` has the addresses of HTTP and RPC once they are
    bound."""

    def __init__(
        self,
        config: ServerConfig,
        record: ServerRecord,
        state: ReplicatedState,
        control: Control,
        directory: ServerDirectory,
    ) -> None:
        self._config = config
        self.record = record
        self._directory = directory
        self._state = state
        self._control = control
        self.workers: WorkerPool | None = None
        self.server_id = record.id
        self.name = record.name
        self.region = config.region
        self.datacenter = config.datacenter

    def bound(self, *, http: str = "", rpc: str = "") -> None:
        """Sets the addresses that others are told from now on."""
        changed = {"http_address": http, "rpc_address": rpc}
        self.record = replace(
            self.record, **{name: value for name, value in changed.items() if value}
        )

    def leader_address(self) -> str:
        leader = self._directory.leader()
        return leader.rpc_address if leader else ""

    def last_contact_ms(self) -> int:
        if self._state.cluster.is_leader:
            return 0
        since_s = self._state.cluster.last_contact_s
        return round(since_s * 1000) if since_s is not None else _NEVER_MS

    def peer_addresses(self) -> Sequence[str]:
        return self._directory.rpc_addresses()

    def servers(self) -> Sequence[ServerRecord]:
        return self._directory.servers()

    def members(self) -> Sequence[Mapping[str, Any]]:
        return [self._member(record) for record in self._directory.servers() if record.rpc_address]

    def _member(self, record: ServerRecord) -> dict[str, Any]:
        host, port = split_host_port(record.rpc_address)
        _, raft_port = split_host_port(record.address)
        return {
            "Name": f"{record.name}.{record.region}",
            "Addr": host,
            "Port": raft_port or port,
            "Status": record.status,
            "Tags": {
                **self._expected(),
                "role": "nomad",
                "id": record.id,
                "region": record.region,
                "dc": record.datacenter,
                "build": record.build,
                "rpc_addr": host,
                "port": str(port),
                "raft_vsn": "3",
                "vsn": "1",
                "revision": "",
                "raft_addr": record.address,
                "command_version": str(record.command_version),
            },
            "ProtocolMin": 1,
            "ProtocolMax": 5,
            "ProtocolCur": 2,
            "DelegateMin": 2,
            "DelegateMax": 5,
            "DelegateCur": 4,
        }

    def _expected(self) -> dict[str, str]:
        """Returns the tags of `bootstrap_expect`, which is the same on all servers."""
        count = self._config.join.bootstrap_expect
        found = {"expect": str(count)} if count else {}
        return {**found, "bootstrap": "1"} if count == 1 else found

    def config(self) -> Mapping[str, Any]:
        config, record = self._config, self.record
        advertised = {
            "HTTP": record.http_address,
            "RPC": record.rpc_address,
            "Serf": record.address,
        }
        own = {
            "Region": self.region,
            "Datacenter": self.datacenter,
            "NodeName": self.name,
            "DataDir": str(config.data_dir),
            "BindAddr": split_host_port(config.http_bind)[0],
            "LogLevel": logs.current().level.upper(),
            "DevMode": config.dev_mode,
            "Ports": {name: split_host_port(address)[1] for name, address in advertised.items()},
            "AdvertiseAddrs": advertised,
            "Addresses": {
                name: split_host_port(address)[0] for name, address in advertised.items()
            },
            "ACL": {"Enabled": config.acl.enabled},
            "TLSConfig": {
                "EnableHTTP": config.http_tls is not None,
                "EnableRPC": config.tls is not None,
                "VerifyHTTPSClient": config.http_tls is not None and config.http_tls.verify_client,
                "VerifyServerHostname": config.tls is not None,
            },
            "UI": {"Enabled": False, "ShowCLIHints": True},
            "Server": {"Enabled": True},
            "Version": {
                "Version": __version__,
                "VersionPrerelease": "",
                "VersionMetadata": "orchgit",
                "Revision": "",
            },
        }
        unset = {"EnableDebug": False, "Server": {"NumSchedulers": config.num_schedulers}}
        return laid_over(config.configured or unset, own)

    def stats(self) -> Mapping[str, Mapping[str, str]]:
        with self._state.store.snapshot() as snapshot:
            index = str(snapshot.index)
        broker = {name: str(value) for name, value in self._control.broker_stats().items()}
        leads = "true" if self._state.cluster.is_leader else "false"
        machine = os.uname().machine
        return {
            "nomad": {
                "server": "true",
                "leader": leads,
                "leader_addr": self.leader_address(),
                "bootstrap": "true" if self._config.join.bootstrap_expect == 1 else "false",
                "known_regions": "1",
            },
            "raft": self._raft_stats(index),
            "serf": self._serf_stats(),
            "broker": broker,
            "runtime": {
                "arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine),
                "cpu_count": str(os.cpu_count() or 1),
                "goroutines": str(threading.active_count()),
                "kernel.name": os.uname().sysname.lower(),
                "max_procs": str(len(os.sched_getaffinity(0))),
                "version": __version__,
            },
        }

    def _raft_stats(self, index: str) -> dict[str, str]:
        cluster = self._state.cluster
        contact_s = cluster.last_contact_s
        ids = {each.address: each.id for each in self._directory.servers()}
        members = (
            f"{{Suffrage:{'Voter' if each.voter else 'Nonvoter'} "
            f"ID:{ids.get(each.address) or each.address} Address:{each.address}}}"
            for each in cluster.members
        )
        snapshot_index, snapshot_term = cluster.last_snapshot
        return {
            "applied_index": index,
            "commit_index": index,
            "fsm_pending": "0",  # what is committed is applied before it is told of
            "last_contact": _contact(contact_s),
            "last_log_index": str(cluster.last_log_index),
            "last_log_term": str(cluster.last_log_term),
            "last_snapshot_index": str(snapshot_index),
            "last_snapshot_term": str(snapshot_term),
            "latest_configuration": f"[{' '.join(members)}]",
            "latest_configuration_index": "0",
            "logstore_backend": "journal",
            "num_peers": str(max(0, len(cluster.members) - 1)),
            "protocol_version": "3",
            "protocol_version_max": "3",
            "protocol_version_min": "0",
            "snapshot_version_max": "1",
            "snapshot_version_min": "0",
            "state": "Leader" if cluster.is_leader else "Follower",
            "term": str(cluster.term),
        }

    def _serf_stats(self) -> dict[str, str]:
        """Counts the servers as Nomad's gossip does; there is no gossip here, so its clocks and
        queues are as if nothing had ever passed."""
        states = [each.status for each in self._directory.servers()]
        waiting = ("coordinate_resets", "event_queue", "intent_queue", "query_queue")
        clocks = ("event_time", "member_time", "query_time")
        return {
            "members": str(len(states)),
            "failed": str(states.count("failed")),
            "left": str(states.count("left")),
            "health_score": "0",
            "encrypted": "true" if self._config.tls is not None else "false",
            **dict.fromkeys(waiting, "0"),
            **dict.fromkeys(clocks, "1"),
        }

    async def schedulers(self) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "id": worker.id,
                "enabled_schedulers": worker.enabled_schedulers,
                "started": worker.started,
                "status": worker.status,
                "workload_status": worker.workload_status,
            }
            for worker in (await self.workers.ask() if self.workers is not None else ())
        ]

    def scheduler_workers(self) -> tuple[int, Sequence[str]]:
        return self._pool.count, self._pool.types

    async def set_scheduler_workers(self, count: int, types: Sequence[str]) -> None:
        await self._pool.configure(count, types)

    def schedulers_paused(self) -> bool:
        return self._pool.paused

    async def pause_schedulers(self, paused: bool) -> None:
        await (self._pool.pause() if paused else self._pool.resume())

    @property
    def _pool(self) -> WorkerPool:
        if self.workers is None:
            raise UnavailableError("cannot look at the schedulers: the server is still starting")
        return self.workers


def laid_over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the base with the values of `own` in place of its own, also inside objects."""
    both = {**base, **own}
    for name, value in own.items():
        below = base.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            both[name] = laid_over(below, value)
    return both


def _contact(contact_s: float | None) -> str:
    """Returns how long ago a server heard of the leader, as Nomad tells it: a leader says "0"."""
    if contact_s is None:
        return "never"
    return f"{contact_s * 1000:.0f}ms" if contact_s else "0"
