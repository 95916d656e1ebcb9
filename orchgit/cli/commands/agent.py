"""`orchgit agent`: a server, a client, or both, from a configuration file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchgit.cli.command import cli_command
from orchgit.cli.commands.agent_flags import FLAGS, configuration_flags
from orchgit.cli.options import option_field, options_of

if TYPE_CHECKING:
    from agent.config import AgentConfig
    from orchgit.configuration.file import Listen, ReadConfig
    from orchgit.server.config import ServerConfig

LOOPBACK = frozenset(("127.0.0.1", "localhost"))
DEV_DRIVERS = {"raw_exec": {"enabled": True}}
"""Off elsewhere, as raw_exec isolates nothing; on one's own machine it is what one tries first."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    config: tuple[str, ...] = option_field(
        "config",
        multiple=True,
        help="Configuration file, HCL or JSON, or a directory of them; repeatable.",
    )
    dev: bool = option_field(
        "dev", is_flag=True, help="Server and client on this machine; raw_exec enabled."
    )
    server: bool = option_field("server", is_flag=True, help="Run a server.")
    client: bool = option_field("client", is_flag=True, help="Run a client.")
    data_dir: str | None = option_field("data-dir", help="Where state is kept.")
    bind: str | None = option_field("bind", help="Address to listen on.")
    http_port: int | None = option_field(
        "http-port", type=int, help="Port of the HTTP API; 0: any free one."
    )
    rpc_port: int | None = option_field(
        "rpc-port", type=int, help="Port for agents; 0: any free one."
    )
    serf_port: int | None = option_field(
        "serf-port", type=int, help="Port for the other servers' logs; 0: any free one."
    )
    servers: tuple[str, ...] = option_field(
        "servers",
        multiple=True,
        help="host:port of a server's RPC, or several with commas; may be repeated.",
    )
    bootstrap_expect: int | None = option_field(
        "bootstrap-expect", type=int, help="Servers that form the cluster together."
    )
    retry_join: tuple[str, ...] = option_field(
        "retry-join",
        multiple=True,
        help="A server to join, asked until it answers; repeatable.",
    )
    start_join: tuple[str, ...] = option_field(
        "join", multiple=True, help="A server to join, which has to answer now; repeatable."
    )
    node_name: str = option_field("node-name", default="", help="Name of the node.")
    node_pool: str | None = option_field("node-pool", help="Pool the node joins.")
    node_class: str | None = option_field("node-class", help="Class of the node.")
    datacenter: str | None = option_field("dc", help="Datacenter.")
    region: str | None = option_field("region", help="Region.")
    log_level: str | None = option_field("log-level", help="TRACE, DEBUG, INFO, WARN or ERROR.")
    log_json: bool = option_field("log-json", is_flag=True, help="Log lines as JSON objects.")
    intro_token: str = option_field(
        "client-intro-token",
        default="",
        help="With which a new node introduces itself; else NOMAD_CLIENT_INTRO_TOKEN, or the file "
        "intro_token.jwt in the data directory.",
    )


_KEYS = {
    "bind": "bind_addr",
    "http_port": "ports.http",
    "rpc_port": "ports.rpc",
    "serf_port": "ports.serf",
    "bootstrap_expect": "server.bootstrap_expect",
    "retry_join": "server.retry_join",
    "start_join": "server.start_join",
    "node_name": "name",
    "node_pool": "client.node_pool",
    "node_class": "client.node_class",
    "datacenter": "datacenter",
    "region": "region",
    "log_level": "log_level",
}
"""Option -> path of the key in configuration files that takes the same values."""
_FLAGS = {name: name.replace("_", "-") for name in _KEYS} | {
    "start_join": "join",
    "datacenter": "dc",
}


@cli_command("agent")
@options_of(AgentOptions)
@configuration_flags
def agent(options: AgentOptions, flags: Mapping[str, Any]) -> None:
    """Run a server, a client, or both. Options override the configuration file.

    Stopping it leaves tasks running; the next start takes them up again.

    \b
    Three servers that form a cluster, each with its own -bind and -data-dir:
    orchgit agent -server -bootstrap-expect 3 -retry-join 10.0.0.1 -retry-join 10.0.0.2
    """
    # The server's and the agent's imports are most of the time to start: only this command pays.
    import orchgit.plain_httpx
    import orchgit.plain_structlog  # noqa: F401 - first: see there
    from orchgit import logs
    from orchgit.cli.agent_process.reloading import Reloader, log_settings, log_warnings
    from orchgit.cli.agent_process.running import (
        Running,
        node_ready,
        run_event_loop,
        run_until_stopped,
    )
    from orchgit.configuration.audit import audit_settings
    from orchgit.configuration.file import Listen, read_config

    _check_options(options)
    by_path = {FLAGS[flag]: value for flag, value in flags.items()}
    given = read_config(*options.config, flags=by_path)
    file = given.file
    runs_server = options.dev or options.server or file.server.enabled
    runs_client = options.dev or options.client or file.client.enabled
    if not (runs_server or runs_client):
        raise click.UsageError(
            "cannot start an agent that is neither server nor client: give -dev, -server or "
            "-client, or enable one in the configuration file"
        )
    data_dir = options.data_dir or file.data_dir or ("./orchgit-data" if options.dev else "")
    if not data_dir:
        raise click.UsageError("cannot start without a data directory: give -data-dir")
    directory = Path(data_dir).absolute()
    ports = (options.http_port, options.rpc_port, options.serf_port)
    listen = Listen(file, options.bind, options.dev, ports)
    server_config = _server_config(options, given, listen, directory) if runs_server else None
    agent_config = _agent_config(options, given, listen, directory) if runs_client else None
    logs.configure(log_settings(file, options.log_level, options.log_json))
    log_warnings(given.warnings)
    reloader = Reloader(options.config, file, options.log_level, options.log_json, by_path)

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
            server_config,
            agent_config,
            listen.http,
            started,
            reloader,
            file.advertise.http,
            audit_settings(file.audit),
        )
    )
    click.echo("==> Stopped.")


def _check_options(options: AgentOptions) -> None:
    """Raises UsageError for an option whose key in a file could not have the value."""
    from orchgit.configuration.bounds import problem_of

    for name, path in _KEYS.items():
        value = getattr(options, name)
        wrong = "" if value is None else problem_of(path, value)
        if wrong:
            raise click.UsageError(f"cannot use -{_FLAGS[name]}: {wrong}")


def _server_config(
    options: AgentOptions, given: ReadConfig, listen: Listen, directory: Path
) -> ServerConfig:
    from orchgit.configuration.settings import with_join_options
    from orchgit.server.config import ServerConfig

    overridden = _given(
        region=options.region, datacenter=options.datacenter, name=options.node_name or None
    )
    config = ServerConfig(
        data_dir=directory,
        http_bind=listen.http,
        http_also=listen.http_also,
        rpc_bind=listen.rpc,
        raft_bind=listen.serf,
        dev_mode=options.dev,
        **{**given.server, **overridden},
    )
    return with_join_options(
        config, options.bootstrap_expect, options.retry_join, options.start_join
    )


def _agent_config(
    options: AgentOptions, given: ReadConfig, listen: Listen, directory: Path
) -> AgentConfig:
    from agent.config import AgentConfig
    from orchgit.configuration.settings import known_servers

    settings = {
        **given.agent,
        **_given(
            region=options.region,
            datacenter=options.datacenter,
            node_pool=options.node_pool,
            node_class=options.node_class,
        ),
    }
    named = tuple(one for each in options.servers for one in each.split(","))
    return AgentConfig(
        data_dir=directory,
        servers=named or known_servers(given.file.client) or (listen.rpc,),
        node_name=options.node_name or given.file.name,
        http_also=listen.http_also,
        intro_token=_introduction(options.intro_token, directory),
        **(with_dev_defaults(settings, listen.host) if options.dev else settings),
    )


def _introduction(given: str, directory: Path) -> str:
    """Returns the token with which a new node introduces itself, or ""."""
    token = given or os.environ.get("NOMAD_CLIENT_INTRO_TOKEN", "")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        token = token or (directory / "intro_token.jwt").read_text(encoding="utf-8")
    return token.strip()


def with_dev_defaults(settings: dict[str, Any], host: str) -> dict[str, Any]:
    """The agent's settings with what `-dev` and `orchgit dev` add where they say nothing else."""
    added: dict[str, Any] = {
        "drivers": {**DEV_DRIVERS, **settings.get("drivers", {})},
        "telemetry": replace(settings["telemetry"], allocation_metrics=True, node_metrics=True),
    }
    if host in LOOPBACK and not settings.get("network_interface"):
        added["network_interface"] = "lo"
    return {**settings, **added}


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
