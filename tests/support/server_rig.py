"""A real server with a real agent, in a thread of this process, for tests that speak HTTP to it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx

from agent.agent import Agent
from agent.config import AgentConfig
from agent.metrics.node_metrics import node_metrics
from agent.serve import client_app
from agent.serve.client_stats import client_stats
from orchgit.cli.commands.dev import end_tasks
from orchgit.server.config import ServerConfig
from orchgit.server.server import Server
from tests.support.api_rig import ApiRig

DRIVERS = {"raw_exec": {"enabled": True}, "mock_driver": {"enabled": True}}

T = TypeVar("T")
START_TIMEOUT_S = 90.0


class ServerRig(ApiRig):
    """`http` is a client of its API; `run` runs a coroutine on its loop."""

    def __init__(
        self,
        data_dir: Path,
        with_agent: bool = True,
        agent_config: Mapping[str, Any] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        **config: Any,
    ) -> None:
        self._loop = loop or asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.data_dir = data_dir
        self._with_agent = with_agent
        self._agent_config = agent_config or {}
        self._config = config
        self.server: Server
        self.agent: Agent

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_TIMEOUT_S)

    def start(self) -> None:
        self._thread.start()
        self.run(self._start())
        base = f"http://{self.server.http_address}"
        self.http = httpx.Client(base_url=base, timeout=30.0, trust_env=False)

    async def _start(self) -> None:
        config = {"http_bind": "127.0.0.1:0", "rpc_bind": "127.0.0.1:0", **self._config}
        self.server = Server(ServerConfig(data_dir=self.data_dir / "server", **config))
        await self.server.start()
        if self._with_agent:
            await self.start_agent()

    async def start_agent(self) -> None:
        self.agent = Agent(
            AgentConfig(
                data_dir=self.data_dir / "agent",
                servers=(self.server.rpc_address,),
                http_addr=self.server.http_address,
                **{"drivers": DRIVERS, "node_name": "rig", **self._agent_config},
            )
        )
        await self.agent.start()
        self.server.attach_client(
            lambda: self.agent.node_id,
            client_app(self.agent),
            partial(node_metrics, self.agent),
            partial(client_stats, self.agent),
        )

    def stop(self) -> None:
        self.http.close()
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_TIMEOUT_S)
        self._loop.close()

    async def _stop(self) -> None:
        if self._with_agent:
            await self.agent.stop()
            await end_tasks(self.data_dir / "agent")
        await self.server.stop()


@contextlib.contextmanager
def server_rig(data_dir: Path, with_agent: bool = True, **config: Any) -> Iterator[ServerRig]:
    rig = ServerRig(data_dir, with_agent, **config)
    rig.start()
    try:
        yield rig
    finally:
        rig.stop()
