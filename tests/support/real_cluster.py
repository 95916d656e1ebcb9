"""Servers and agents as processes, to be killed, stopped, and started again.

Where they run is a `Place`: a network of the test's own with faults on every link
(`cluster_net.py`), or loop-back. How a server is configured is `_server` alone.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agent.hooks.secrets_mount import unmount_below
from orchgit.wire.tls import TlsFiles
from tests.support import polling
from tests.support.raw_http import Answer, RawConnection

READY_S = 90.0
ANSWER_S = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ports:
    http: int = 4646
    rpc: int = 4647
    raft: int = 4648


class Place(Protocol):
    """Where the processes run, and how the test reaches them."""

    def address(self, host: str) -> str: ...

    def ports(self, host: str) -> Ports: ...

    def tls(self, host: str) -> TlsFiles | None: ...

    def command(self, host: str, *arguments: str) -> list[str]: ...

    def dial(self) -> socket.socket: ...

    @property
    def interface(self) -> str: ...


class HostProcess:
    """One `orchgit` on one host; its output is kept in a file beside its data directory."""

    def __init__(self, place: Place, host: str, directory: Path, arguments: list[str]) -> None:
        self.host = host
        self.place = place
        self.directory = directory
        self.data_dir = directory / "data"
        self._arguments = arguments
        self.checkout: Path | None = None
        """Another version's source tree, with its `.venv`, that is started instead of this one."""
        self._process: asyncio.subprocess.Process | None = None
        self.tls: ssl.SSLContext | None = None
        """With what it is asked, where it serves HTTPS."""
        self.token = ""
        """With what it is asked, where access control is on."""

    @property
    def http(self) -> tuple[str, int]:
        return self.place.address(self.host), self.place.ports(self.host).http

    async def start(self) -> None:
        """Returns at once; `answers` waits."""
        self.directory.mkdir(parents=True, exist_ok=True)
        python = sys.executable if self.checkout is None else self.checkout / ".venv/bin/python"
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.place.command(self.host, str(python), "-m", *self._arguments),
                cwd=self.checkout,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> Path:
        return self.directory / "output.log"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self, deadline_s: float = 15.0) -> int:
        """With time to finish."""
        assert self._process is not None
        self.signal(signal.SIGTERM)
        async with asyncio.timeout(deadline_s):
            return await self._process.wait()

    async def ask(
        self, method: str, path: str, body: bytes = b"", timeout_s: float = ANSWER_S
    ) -> Answer:
        """Over a connection of its own; OSError or TimeoutError when it does not answer."""
        async with asyncio.timeout(timeout_s):
            connection = await RawConnection.open(self.http, self.place.dial, self.tls)
            try:
                return await connection.request(method, path, body, self.token)
            finally:
                connection.close()

    async def get(self, path: str, timeout_s: float = ANSWER_S) -> Any:
        answer = await self.ask("GET", path, timeout_s=timeout_s)
        assert answer.status == 200, f"{self.host} {path}: {answer.status} {answer.text}"
        return answer.json()

    async def stats(self) -> Any:
        """What it says of itself, whoever leads."""
        return (await self.get("/v1/agent/self", timeout_s=2.0))["stats"]

    async def applied_index(self) -> int:
        return int((await self.stats())["raft"]["applied_index"])

    def _how_it_ended(self) -> str:
        code = self._process.returncode if self._process is not None else None
        return f"{self.host} ended with {code}:\n{self.log.read_text()[-4000:]}"

    async def answers(self) -> None:
        """Wait until its HTTP does."""

        async def answer() -> bool:
            assert self.is_running, self._how_it_ended()
            answer = await self.ask("GET", "/v1/agent/self", timeout_s=2.0)
            return answer.status == 200 or (answer.status == 403 and not self.token)

        await until(answer, READY_S, f"{self.host} does not answer")


class RealCluster:
    """Servers `s1`, `s2`, ..., agents `a1`, ...; `start` returns when all of them are at work.

    `server_options` are further keys of the servers' section, `plugins` further drivers of the
    agents. With `acl` access control is on, and everything is asked with the bootstrap token."""

    def __init__(
        self,
        place: Place,
        directory: Path,
        servers: int = 3,
        agents: int = 0,
        server_options: dict[str, Any] | None = None,
        plugins: dict[str, Any] | None = None,
        acl: bool = False,
    ) -> None:
        self._acl = acl
        self.place = place
        self._server_options = server_options or {}
        self._plugins = {"raw_exec": {"config": {"enabled": True}}, **(plugins or {})}
        self._directory = directory
        names = server_names(servers)
        self._key = directory / "cluster.key"
        self._key.write_bytes(base64.b64encode(os.urandom(32)))
        self._key.chmod(0o600)
        self.servers = {name: self._server(name, names) for name in names}
        self.agents = {name: self._agent(name, names) for name in agent_names(agents)}

    async def start(self) -> None:
        await asyncio.gather(*(one.start() for one in self.servers.values()))
        await asyncio.gather(*(one.answers() for one in self.servers.values()))
        if self._acl:
            await self._bootstrap()
        await self._all_vote()
        await asyncio.gather(*(one.start() for one in self.agents.values()))
        if self.agents:
            await self.nodes_ready()

    async def close(self) -> None:
        for one in [*self.servers.values(), *self.agents.values()]:
            if one.is_running:
                await one.kill()
        for agent in self.agents.values():
            for allocation in agent.data_dir.glob("alloc/*/"):
                unmount_below(allocation)

    # -- who does what ---------------------------------------------------------------------------

    async def leader(
        self, among: Iterable[HostProcess] | None = None, timeout_s: float = 60.0
    ) -> HostProcess:
        """Wait until one of them leads, and all of them know it."""
        asked = list(among or self.servers.values())
        said: dict[str, tuple[str, str]] = {}

        async def agreed() -> HostProcess | None:
            stats = await asyncio.gather(*(one.stats() for one in asked))
            said.update(
                (one.host, (each["nomad"]["leader"], each["nomad"]["leader_addr"]))
                for one, each in zip(asked, stats, strict=True)
            )
            leading = [one for one in asked if said[one.host][0] == "true"]
            known = {address.rpartition(":")[0] for _, address in said.values()}
            return leading[0] if len(leading) == 1 and len(known) == 1 else None

        try:
            return await until(agreed, timeout_s, "they have no leader")
        except AssertionError as error:
            raise AssertionError(f"{error}; they say {said}") from None

    def followers(self, leader: HostProcess) -> list[HostProcess]:
        return [one for one in self.servers.values() if one is not leader]

    async def nodes_ready(self, timeout_s: float = 60.0) -> None:
        """Every agent's node can be given work."""

        async def ready() -> bool:
            nodes = await (await self.leader()).get("/v1/nodes")
            return [each["Status"] for each in nodes] == ["ready"] * len(self.agents)

        await until(ready, timeout_s, "the nodes do not get ready")

    async def _bootstrap(self) -> None:
        asked = next(iter(self.servers.values()))

        async def secret() -> str | None:
            answer = await asked.ask("PUT", "/v1/acl/bootstrap")
            return str(answer.json()["SecretID"]) if answer.status == 200 else None

        token = await until(secret, READY_S, "access control is not set up")
        for one in [*self.servers.values(), *self.agents.values()]:
            one.token = token
        # A server that has not joined yet does not know the token.
        await asyncio.gather(*(one.answers() for one in self.servers.values()))

    async def _all_vote(self, timeout_s: float = 60.0) -> None:
        """The cluster has been formed."""

        async def voting() -> bool:
            answer = await (await self.leader()).get("/v1/operator/raft/configuration")
            return [each["Voter"] for each in answer["Servers"]] == [True] * len(self.servers)

        await until(voting, timeout_s, "the servers form no cluster")

    async def settled(self, timeout_s: float = 60.0) -> int:
        """Wait until every server has applied the same entries, and no more come; the index."""
        before: set[int] = set()

        async def equal() -> int | None:
            nonlocal before
            found = {await one.applied_index() for one in self.servers.values()}
            same = len(found) == 1 and found == before
            before = found
            return found.pop() if same else None

        return await until(equal, timeout_s, "the servers do not come to the same index")

    # -- how they are configured -----------------------------------------------------------------

    def _server(self, name: str, names: list[str]) -> HostProcess:
        section = {
            "enabled": True,
            "bootstrap_expect": len(names),
            "cluster_key_file": str(self._key),
            "server_join": {
                "retry_join": [self._rpc(other) for other in names if other != name],
                "retry_interval": "100ms",
            },
            **self._server_options,
        }
        ports = self.place.ports(name)
        numbers = {"http": ports.http, "rpc": ports.rpc, "serf": ports.raft}
        return self._process(name, {"ports": numbers, "server": section})

    def _agent(self, name: str, servers: list[str]) -> HostProcess:
        section = {
            "enabled": True,
            "servers": [self._rpc(one) for one in servers],
            "network_interface": self.place.interface,
        }
        settings = {
            "ports": {"http": self.place.ports(name).http},
            "client": section,
            "plugin": self._plugins,
        }
        return self._process(name, settings)

    def _rpc(self, name: str) -> str:
        return f"{self.place.address(name)}:{self.place.ports(name).rpc}"

    def _process(self, name: str, settings: dict[str, Any]) -> HostProcess:
        directory, tls = self._directory / name, self.place.tls(name)
        directory.mkdir(parents=True, exist_ok=True)
        settings |= {
            "name": name,
            "data_dir": str(directory / "data"),
            "bind_addr": self.place.address(name),
            "insecure_http": True,
            "acl": {"enabled": self._acl},
        }
        if tls is not None:
            files = {"ca_file": tls.ca, "cert_file": tls.cert, "key_file": tls.key}
            settings["tls"] = {key: str(file) for key, file in files.items()}
        file = directory / "agent.json"
        file.write_text(json.dumps(settings))
        return HostProcess(self.place, name, directory, ["orchgit", "agent", "-config", str(file)])


def server_names(count: int) -> list[str]:
    return [f"s{number}" for number in range(1, count + 1)]


def agent_names(count: int) -> list[str]:
    return [f"a{number}" for number in range(1, count + 1)]


async def until(condition: Callable[[], Awaitable[T | None]], timeout_s: float, problem: str) -> T:
    """Waits as `polling.until` does, also while a server does not answer."""
    return await polling.until(condition, timeout_s, problem, retried=(OSError, TimeoutError))
