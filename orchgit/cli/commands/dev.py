"""`orchgit dev`: one server, one agent and a git repository, with their state on disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchgit.cli.client.tls_client import TlsClient
from orchgit.cli.command import cli_command
from orchgit.cli.commands.agent import with_dev_defaults
from orchgit.cli.options import option_field, options_of
from orchgit.cli.printing.output import counted

if TYPE_CHECKING:
    from orchgit.server.config import ServerConfig

STARTED = time.monotonic()


@dataclass(frozen=True, slots=True)
class DevOptions:
    data_dir: str = option_field(
        "data-dir", default="./orchgit-data", help="Where state is kept; a restart goes on."
    )
    bind: str = option_field("bind", default="127.0.0.1", help="Address to listen on.")
    port: int = option_field(
        "port", type=int, default=4646, help="Port of the HTTP API; 0: any free one."
    )
    rpc_port: int = option_field(
        "rpc-port", type=int, default=0, help="Port for agents; 0: any free one."
    )
    node_name: str = option_field(
        "node-name", default="", help="Name of the node; the machine's name if not given."
    )
    local_path: tuple[str, ...] = option_field(
        "local-path", multiple=True, help="Sources may have repositories below it; repeatable."
    )
    config: tuple[str, ...] = option_field(
        "config",
        multiple=True,
        help="An agent configuration file or directory, read before these options; repeatable.",
    )
    log_level: str | None = option_field(
        "log-level", help="TRACE, DEBUG, INFO, WARN or ERROR; WARN if not given."
    )
    log_json: bool = option_field("log-json", is_flag=True, help="Log lines as JSON objects.")
    no_demo: bool = option_field("no-demo", is_flag=True, help="Without the demo repository.")
    cleanup: bool = option_field(
        "cleanup", is_flag=True, help="Stop all tasks of the data directory, and leave."
    )


@cli_command("dev")
@options_of(DevOptions)
def dev(options: DevOptions) -> None:
    """Run a single-machine cluster with a git repository: to try orchgit, or for one machine.

    Tasks go on when this process ends, and are taken up again by the next start; -cleanup ends
    them.
    """
    directory = Path(options.data_dir).absolute()
    if options.cleanup:
        asyncio.run(end_tasks(directory))
        return
    # The server's and the agent's imports are most of the time to start: only this command pays.
    import orchgit.plain_httpx
    import orchgit.plain_structlog  # noqa: F401 - first: see there
    from agent.config import AgentConfig
    from orchgit import logs
    from orchgit.cli.agent_process.reloading import Reloader, log_settings, log_warnings
    from orchgit.cli.agent_process.running import (
        Running,
        node_ready,
        run_event_loop,
        run_until_stopped,
    )
    from orchgit.configuration.file import read_config
    from orchgit.host_port import join_host_port
    from orchgit.server.config import ServerConfig

    given = read_config(*options.config)
    log_level = options.log_level or (None if options.config else "WARN")
    logs.configure(log_settings(given.file, log_level, options.log_json))
    log_warnings(given.warnings)
    reloader = Reloader(options.config, given.file, log_level, options.log_json)

    async def started(running: Running) -> None:
        assert running.server is not None
        assert running.agent is not None
        click.echo("==> orchgit dev is running")
        click.echo(f"    HTTP   {running.http_url}")
        click.echo(f"    Git    {running.http_url}/git/demo.git")
        click.echo(f"    State  {directory}")
        await node_ready(running.server, running.agent.node_id)
        took_s = time.monotonic() - STARTED
        click.echo(f"==> Node ready after {took_s:.2f} s: {running.agent.node_id}")
        if not options.no_demo:
            await _seed(running.http_url, running.agent.node_id, _as_client(running.server.config))

    server_config = ServerConfig(
        data_dir=directory,
        http_bind=join_host_port(options.bind, options.port),
        rpc_bind=join_host_port(options.bind, options.rpc_port),
        dev_mode=True,
        **given.server,
    )
    if options.local_path:
        allowed = (str(Path(each).absolute()) for each in options.local_path)
        paths = (*server_config.gitops.local_paths, *allowed)
        gitops = replace(server_config.gitops, local_paths=paths)
        server_config = replace(server_config, gitops=gitops)
    agent_config = AgentConfig(
        data_dir=directory,
        servers=("127.0.0.1:4647",),
        node_name=options.node_name,
        **with_dev_defaults(given.agent, options.bind),
    )
    run_event_loop(run_until_stopped(server_config, agent_config, "", started, reloader))
    click.echo("==> Stopped. Tasks run on; start again to go on, or end them with -cleanup.")


def _as_client(config: ServerConfig) -> TlsClient:
    """Returns the settings of a client of this server, which accepts its own certificate."""
    if config.http_tls is None:
        return TlsClient()
    files = config.http_tls.files
    own = (str(files.cert), str(files.key)) if config.http_tls.verify_client else ("", "")
    return TlsClient(ca_cert=str(files.ca), client_cert=own[0], client_key=own[1])


async def _seed(url: str, node_id: str, tls: TlsClient) -> None:
    from orchgit.cli.agent_process.demo import seed

    fresh = await seed(url, node_id, tls)
    click.echo(
        "==> The demo repository holds the examples."
        if fresh
        else "==> The demo repository is there already."
    )
    for line in tls.git_settings():
        click.echo(f"    For git:  export {line}")
    click.echo(f"    Try:  git clone {url}/git/demo.git && cd demo")
    click.echo("          edit web.nomad.hcl, then: git commit -am 'Try it' && git push")
    program = "orchgit" if shutil.which("orchgit") else sys.argv[0]
    click.echo(f"          {program} rollout list; {program} job status web")


async def end_tasks(directory: Path) -> None:
    """Stops every task under the supervisor of a data directory and the supervisor itself, and
    takes away what is mounted for them."""
    from agent.hooks.secrets_mount import unmount_below
    from agent.networks.alloc_networks import remove_networks
    from agent.supervisor.client import SupervisorClient
    from orchgit.directory_lock import lock_directory

    supervisor = SupervisorClient(directory / "client" / "supervisor")
    if not (directory / "client" / "supervisor").is_dir():
        click.echo("==> No tasks.")
        return
    # Held to the end: an agent that starts meanwhile would start the tasks again.
    lock_fd = lock_directory(directory / "client", directory)
    reports = [each for each in await supervisor.list() if not each.ended]
    for report in reports:
        await supervisor.stop(report.key, signal.SIGTERM, 2.0)
    for report in reports:
        await supervisor.wait(report.key)
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor.pid, signal.SIGTERM)
    await supervisor.close()
    for allocation in (directory / "alloc").glob("*/"):  # the disk of all may be somebody's own
        unmount_below(allocation)
    await remove_networks(directory)
    os.close(lock_fd)
    click.echo(f"==> {counted(len(reports), 'task')} stopped.")
