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
        contact_s = self._state.cluster.last_contact_s
        machine = os.uname().machine
        return {
            "nomad": {
                "server": "true",
                "leader": leads,
                "leader_addr": self.leader_address(),
                "bootstrap": "true" if self._config.join.bootstrap_expect == 1 else "false",
                "known_regions": "1",
            },
            "raft": {
                "applied_index": index,
                "commit_index": index,
                "last_log_index": str(self._state.cluster.last_log_index),
                "last_contact": "never" if contact_s is None else f"{contact_s * 1000:.0f}ms",
                "term": str(self._state.cluster.term),
                "num_peers": str(max(0, len(self._state.cluster.members) - 1)),
                "state": "Leader" if self._state.cluster.is_leader else "Follower",
            },
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
