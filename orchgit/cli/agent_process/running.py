"""Runs a server, an agent, or both in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from starlette.types import Scope

from agent.agent import Agent
from agent.config import AgentConfig
from agent.metrics.node_metrics import node_metrics
from agent.serve import client_app
from agent.serve.by_servers import ServersApi
from agent.serve.client_stats import client_stats
from agent.serve.guard import AccessGuard
from orchgit.cli.agent_process.reloading import Reloader
from orchgit.clock import SystemClock
from orchgit.collector import settle_collector
from orchgit.errors import InvalidInputError
from orchgit.ids import RandomIds
from orchgit.metrics.push import PushSettings
from orchgit.server.audit.audit_log import audit_log
from orchgit.server.audit.records import AuditAuth
from orchgit.server.audit.settings import AuditSettings
from orchgit.server.config import ServerConfig
from orchgit.server.http.access import access_of
from orchgit.server.http.server import HttpServer, check_certificate
from orchgit.server.membership.addresses import advertised
from orchgit.server.server import Server

READY_POLL_S = 5.0
HTTP_STOP_S = 1.0


@dataclass(frozen=True, slots=True)
class Running:
    """What runs in this process; one of the two may be missing."""

    server: Server | None
    agent: Agent | None

    @property
    def http_url(self) -> str:
        return self.server.http_url if self.server else ""


def run_event_loop(main: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run` on uvloop (docs/decisions/0028-uvloop.md)."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def run_until_stopped(
    server_config: ServerConfig | None,
    agent_config: AgentConfig | None,
    client_http_bind: str,
    on_started: Callable[[Running], Coroutine[Any, Any, None]],
    reloader: Reloader,
    client_http_advertise: str = "",
    client_audit: AuditSettings | None = None,
) -> None:
    """Starts what is configured, calls `on_started`, stops at SIGINT or SIGTERM; tasks run on.

    SIGHUP is for the reloader. An agent beside a server talks to that server, and the server serves
    its client routes; an agent alone serves them itself at `client_http_bind`, and advertises
    `client_http_advertise`, with the audit log `client_audit`.
    """
    stopping = asyncio.Event()
    leaving = False
    loop = asyncio.get_running_loop()

    def stop(leaves: bool) -> None:
        nonlocal leaving
        leaving = leaves
        stopping.set()

    for number, leaves in (
        (signal.SIGINT, bool(server_config and server_config.leave_on_interrupt)),
        (signal.SIGTERM, bool(server_config and server_config.leave_on_terminate)),
    ):
        loop.add_signal_handler(number, stop, leaves)
    configs = [config for config in (server_config, agent_config) if config is not None]
    reloader.certificates = [
        *(config.tls for config in configs if config.tls is not None),
        *(config.http_tls.files for config in configs if config.http_tls is not None),
    ]
    loop.add_signal_handler(signal.SIGHUP, reloader.reload)
    for config in configs:
        make_usable(config.data_dir)
    server = Server(server_config) if server_config else None
    agent: Agent | None = None
    client_http: HttpServer | None = None
    try:
        if server:
            await server.start()
            server.attach_reload(reloader.reload)
        if agent_config and server:
            agent = _agent_beside(agent_config, server)
            await agent.start()
        elif agent_config:
            agent, client_http = _agent_alone(
                agent_config, client_http_bind, client_http_advertise, client_audit
            )
            agent.reload = reloader.reload
            await agent.start()
            await client_http.start()
        if agent:
            reloader.also.append(agent.find_plugins_again)
        settle_collector()
        started: asyncio.Task[None] = asyncio.create_task(on_started(Running(server, agent)))
        await _first_of(stopping, started, server)
        started.cancel()
    finally:
        if client_http:
            await client_http.stop(HTTP_STOP_S)
        if agent:
            await agent.stop()
        if server and leaving:
            await server.leave()
        if server:
            await server.stop()


def _agent_alone(
    config: AgentConfig, bind: str, advertise: str, audit: AuditSettings | None
) -> tuple[Agent, HttpServer]:
    """Returns an agent and its own HTTP listener.

    The listener takes its port first: the node tells its address to the servers when it starts.
    """
    agent = Agent(config)
    guard = AccessGuard(client_app(agent), agent.access)

    def identify(scope: Scope) -> AuditAuth:
        said = guard.asked_by(scope)
        return AuditAuth(said.accessor_id, said.token_name, said.token_type, said.policies)

    http = HttpServer(
        ServersApi(guard, agent, names_callers=audit is not None),
        bind,
        access_of(config, (config.node_name, bind, advertise)),
        audit=audit_log(audit, config.data_dir, SystemClock(), RandomIds(), identify),
    )
    http.bind()
    address = advertised("http", http.address, advertise)
    if config.http_tls is not None:
        check_certificate(config.http_tls, address)
    agent.config = replace(config, http_addr=address)
    return agent, http


def _agent_beside(config: AgentConfig, server: Server) -> Agent:
    config = replace(
        config,
        servers=(server.rpc_address,),
        http_addr=server.http_address,
        http_tls=server.config.http_tls,
        # The server sends the metrics of both.
        telemetry=replace(config.telemetry, push=PushSettings()),
    )
    agent = Agent(config)
    server.attach_client(
        lambda: agent.node_id,
        client_app(agent),
        partial(node_metrics, agent),
        partial(client_stats, agent),
    )
    return agent


def make_usable(data_dir: Path) -> None:
    """Raises InvalidInputError unless files can be made in the data directory."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        (data_dir / ".writable").touch()
        (data_dir / ".writable").unlink()
    except OSError as error:
        raise InvalidInputError(
            f"cannot use the data directory {data_dir}: {error.strerror}; "
            "choose another with -data-dir"
        ) from error


async def node_ready(server: Server, node_id: str) -> None:
    """Returns when work can be placed on the node."""
    store = server.state.store
    while True:
        with store.snapshot() as snapshot:
            node = snapshot.nodes.get(node_id)
            index = snapshot.index
        if node is not None and node.is_ready:
            return
        await store.watch.wait(["nodes"], index, READY_POLL_S)


async def _first_of(
    stopping: asyncio.Event, started: asyncio.Task[None], server: Server | None
) -> None:
    """Waits until the process is told to stop.

    A failure of `started`, or a server unfit for its cluster, ends the wait with its exception.
    """
    stopped = asyncio.create_task(stopping.wait())
    unfit = asyncio.create_task(server.unfit() if server else asyncio.Event().wait())
    waiting: set[asyncio.Task[Any]] = {stopped, started, unfit}
    try:
        while not stopped.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        unfit.cancel()
        stopped.cancel()
