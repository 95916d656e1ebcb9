"""What a server tells about itself and its peers, in the forms of Nomad's agent API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from orchgit import __version__
from orchgit.control.leader import Control
from orchgit.control.worker_pool import WorkerPool
from orchgit.errors import UnavailableError
from orchgit.replication.replicated import ReplicatedState
from orchgit.server.config import ServerConfig


class Facts:
    """`ServerFacts` of the API. `http_address` and `rpc_address` are set when they are bound."""

    def __init__(
        self,
        config: ServerConfig,
        server_id: str,
        state: ReplicatedState,
        control: Control,
    ) -> None:
        self._config = config
        self._state = state
        self._control = control
        self.workers: WorkerPool | None = None
        self.server_id = server_id
        self.name = config.name or os.uname().nodename
        self.region = config.region
        self.datacenter = config.datacenter
        self.http_address = config.http_bind
        self.rpc_address = config.rpc_bind

    def leader_address(self) -> str:
        if self._state.is_leader:
            return self.rpc_address
        return self._state.leader_address or ""

    def peer_addresses(self) -> Sequence[str]:
        return [self.rpc_address, *self._config.peers]

    def members(self) -> Sequence[Mapping[str, Any]]:
        return [
            self._member(self.name, self.rpc_address, self.server_id),
            *(self._member(peer, peer, peer) for peer in self._config.peers),
        ]

    def _member(self, name: str, address: str, server_id: str) -> dict[str, Any]:
        host, _, port = address.rpartition(":")
        return {
            "Name": f"{name}.{self.region}",
            "Addr": host,
            "Port": int(port),
            "Status": "alive",
            "Tags": {
                "role": "nomad",
                "id": server_id,
                "region": self.region,
                "dc": self.datacenter,
                "build": __version__,
                "rpc_addr": host,
                "port": port,
                "raft_vsn": "3",
            },
            "ProtocolMin": 1,
            "ProtocolMax": 5,
            "ProtocolCur": 2,
            "DelegateMin": 2,
            "DelegateMax": 5,
            "DelegateCur": 4,
        }

    def config(self) -> Mapping[str, Any]:
        config = self._config
        return {
            "Region": self.region,
            "Datacenter": self.datacenter,
            "NodeName": self.name,
            "DataDir": str(config.data_dir),
            "BindAddr": _host(config.http_bind),
            "LogLevel": config.log_level,
            "DevMode": config.dev_mode,
            "EnableDebug": False,
            "Ports": {"HTTP": _port(self.http_address), "RPC": _port(self.rpc_address), "Serf": 0},
            "AdvertiseAddrs": {
                "HTTP": self.http_address,
                "RPC": self.rpc_address,
                "Serf": self.rpc_address,
            },
            "ACL": {"Enabled": False},
            "TLSConfig": {
                "EnableHTTP": config.tls is not None,
                "EnableRPC": config.tls is not None,
            },
            "UI": {"Enabled": True},
            "Server": {"Enabled": True, "NumSchedulers": config.num_schedulers},
            "Version": {
                "Version": __version__,
                "VersionPrerelease": "",
                "VersionMetadata": "orchgit",
                "Revision": "",
            },
        }

    def stats(self) -> Mapping[str, Mapping[str, str]]:
        with self._state.store.snapshot() as snapshot:
            index = str(snapshot.index)
        broker = {name: str(value) for name, value in self._control.broker_stats().items()}
        leads = "true" if self._state.is_leader else "false"
        return {
            "nomad": {
                "server": "true",
                "leader": leads,
                "leader_addr": self.leader_address(),
                "known_regions": "1",
            },
            "raft": {
                "applied_index": index,
                "commit_index": index,
                "last_log_index": index,
                "num_peers": str(len(self._config.peers)),
                "state": "Leader" if self._state.is_leader else "Follower",
            },
            "broker": broker,
            "runtime": {"kernel.name": os.uname().sysname.lower(), "version": __version__},
        }

    def schedulers(self) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "id": worker.id,
                "enabled_schedulers": worker.enabled_schedulers,
                "started": worker.started,
                "status": worker.status,
                "workload_status": "WaitingToDequeue",
            }
            for worker in (self.workers.info() if self.workers is not None else ())
        ]

    def scheduler_workers(self) -> tuple[int, Sequence[str]]:
        return self._pool.count, self._pool.types

    async def set_scheduler_workers(self, count: int, types: Sequence[str]) -> None:
        await self._pool.configure(count, types)

    @property
    def _pool(self) -> WorkerPool:
        if self.workers is None:
            raise UnavailableError("cannot look at the schedulers: the server is still starting")
        return self.workers


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
