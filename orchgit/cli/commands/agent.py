"""`orchgit agent`: a server, a client, or both, from a configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from orchgit.cli.options import option


@click.command("agent")
@option("config", help="Configuration file, HCL or JSON.")
@option("dev", is_flag=True, help="Server and client on this machine; raw_exec enabled.")
@option("server", is_flag=True, help="Run a server.")
@option("client", is_flag=True, help="Run a client.")
@option("data-dir", help="Where state is kept.")
@option("bind", help="Address to listen on.")
@option("http-port", type=int, help="Port of the HTTP API; 0: any free one.")
@option("rpc-port", type=int, help="Port for agents; 0: any free one.")
@option("serf-port", type=int, help="Port for the other servers' logs; 0: any free one.")
@option("servers", multiple=True, help="host:port of a server's RPC; may be repeated.")
@option("bootstrap-expect", type=int, help="Servers that form the cluster together.")
@option("retry-join", multiple=True, help="A server to join, asked until it answers; repeatable.")
@option("join", multiple=True, help="A server to join, which has to answer now; repeatable.")
@option("node-name", default="", help="Name of the node.")
@option("node-pool", help="Pool the node joins.")
@option("node-class", help="Class of the node.")
@option("dc", help="Datacenter.")
@option("region", help="Region.")
@option("log-level", help="TRACE, DEBUG, INFO, WARN or ERROR.")
@option("log-json", is_flag=True, help="Log lines as JSON objects.")
def agent(
    config: str | None,
    dev: bool,
    server: bool,
    client: bool,
    data_dir: str | None,
    bind: str | None,
    http_port: int | None,
    rpc_port: int | None,
    serf_port: int | None,
    servers: tuple[str, ...],
    bootstrap_expect: int | None,
    retry_join: tuple[str, ...],
    join: tuple[str, ...],
    node_name: str,
    node_pool: str | None,
    node_class: str | None,
    dc: str | None,
    region: str | None,
    log_level: str | None,
    log_json: bool,
) -> None:
    """Run a server, a client, or both. Options override the configuration file.

    Stopping it leaves tasks running; the next start takes them up again.

    \b
    Three servers that form a cluster, each with its own -bind and -data-dir:
    orchgit agent -server -bootstrap-expect 3 -retry-join 10.0.0.1 -retry-join 10.0.0.2
    """
    # The server's and the agent's imports are most of the time to start: only this command pays.
    import orchgit.plain_structlog  # noqa: F401 - first: see there
    from agent.config import AgentConfig
    from orchgit import logs
    from orchgit.cli.agent_process.reloading import Reloader, log_settings
    from orchgit.cli.agent_process.running import (
        Running,
        node_ready,
        run_event_loop,
        run_until_stopped,
    )
    from orchgit.cli.commands.dev import DEV_DRIVERS, LOOPBACK
    from orchgit.configuration.file import Listen, ReadConfig, read_config
    from orchgit.configuration.schema import FileConfig
    from orchgit.configuration.settings import known_servers, with_join_options
    from orchgit.server.config import ServerConfig

    given = read_config(Path(config)) if config else ReadConfig(FileConfig(), {}, {})
    file = given.file
    runs_server = dev or server or file.server.enabled
    runs_client = dev or client or file.client.enabled
    if not (runs_server or runs_client):
        raise click.UsageError(
            "cannot start an agent that is neither server nor client: give -dev, -server or "
            "-client, or enable one in the configuration file"
        )
    directory = Path(data_dir or file.data_dir or ("./orchgit-data" if dev else "")).absolute()
    if not (data_dir or file.data_dir or dev):
        raise click.UsageError("cannot start without a data directory: give -data-dir")
    listen = Listen(file, bind, dev, (http_port, rpc_port, serf_port))
    places = _given(region=region, datacenter=dc)
    server_config = agent_config = None
    if runs_server:
        server_config = ServerConfig(
            data_dir=directory,
            http_bind=listen.http,
            rpc_bind=listen.rpc,
            raft_bind=listen.serf,
            dev_mode=dev,
            **{**given.server, **places, **_given(name=node_name or None)},
        )
        server_config = with_join_options(server_config, bootstrap_expect, retry_join, join)
    if runs_client:
        settings = {
            **given.agent,
            **places,
            **_given(node_pool=node_pool, node_class=node_class),
        }
        if dev:
            settings["drivers"] = {**DEV_DRIVERS, **settings.get("drivers", {})}
            if listen.host in LOOPBACK and not settings.get("network_interface"):
                settings["network_interface"] = "lo"
        agent_config = AgentConfig(
            data_dir=directory,
            servers=servers or known_servers(file.client) or (listen.rpc,),
            node_name=node_name or file.name,
            **settings,
        )
    logs.configure(log_settings(file, log_level, log_json))
    reloader = Reloader(Path(config) if config else None, file, log_level, log_json)

    async def started(running: Running) -> None:
        click.echo("==> orchgit agent started")
        if running.server:
            click.echo(f"    HTTP   {running.http_url}")
            click.echo(f"    RPC    {running.server.rpc_address}")
        click.echo(f"    State  {directory}")
        if running.server and running.agent:
            await node_ready(running.server, running.agent.node_id)
            click.echo(f"==> Node ready: {running.agent.node_id}")

    run_event_loop(
        run_until_stopped(
            server_config, agent_config, listen.http, started, reloader, file.advertise.http
        )
    )
    click.echo("==> Stopped.")


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
