"""A whole server of a cluster on loop-back, to be killed: `python -m tests.support.server_member`.

Its only argument is JSON: `data_dir` and fields of ServerConfig as text or numbers. With `agent`, a
directory, it has an agent beside it. It runs until standard input closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.config import AgentConfig
from agent.metrics.node_metrics import node_metrics
from agent.serve import client_app
from agent.serve.client_stats import client_stats
from orchgit import logs
from orchgit.control.leader_term import ControlConfig
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits
from orchgit.errors import OrchgitError
from orchgit.gitops.config import GitopsConfig
from orchgit.server.config import ServerConfig
from orchgit.server.server import Server
from orchgit.services.acl.settings import AclSettings


async def _beside(server: Server, directory: str) -> Agent:
    config = AgentConfig(
        data_dir=Path(directory),
        servers=(server.rpc_address,),
        http_addr=server.http_address,
        drivers={"raw_exec": {"enabled": True}, "mock_driver": {"enabled": True}},
    )
    agent = Agent(config)
    server.attach_client(
        lambda: agent.node_id,
        client_app(agent),
        partial(node_metrics, agent),
        partial(client_stats, agent),
    )
    await agent.start()
    return agent


async def _input_closed() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.read()


async def main(arguments: dict[str, Any]) -> None:
    directory = arguments.pop("agent", None)
    for name in ("data_dir", "cluster_key_file"):
        if name in arguments:
            arguments[name] = Path(arguments[name])
    arguments["peers"] = tuple(arguments["peers"])
    if "local_paths" in arguments:
        arguments["gitops"] = GitopsConfig(local_paths=tuple(arguments.pop("local_paths")))
    if arguments.pop("acl", False):
        arguments["acl"] = AclSettings(enabled=True)
    heartbeat_s = arguments.pop("heartbeat_s", None)
    failover_s = arguments.pop("failover_s", 60.0)
    if heartbeat_s:
        limits = HeartbeatLimits(min_ttl_s=heartbeat_s, grace_s=heartbeat_s, failover_s=failover_s)
        arguments["control"] = ControlConfig(heartbeats=limits)
    server = Server(ServerConfig(**arguments))
    await server.start()
    agent = await _beside(server, directory) if directory else None
    closed = asyncio.create_task(_input_closed())
    unfit = asyncio.create_task(server.unfit())
    await asyncio.wait((closed, unfit), return_when=asyncio.FIRST_COMPLETED)
    if agent is not None:
        await agent.stop()
    await server.stop()
    if unfit.done():
        unfit.result()


if __name__ == "__main__":
    logs.configure(logs.LogSettings("WARNING"))
    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(main(json.loads(sys.argv[1])))
        except OrchgitError as error:
            sys.exit(f"refused: {error}")
