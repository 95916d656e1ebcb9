"""`orchgit agent-info`: what the agent at the address says of its own work."""

from __future__ import annotations

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, formatted
from orchgit.cli.printing.output import heading, pairs, plain
from orchgit.cli.printing.output_format import OutputFormat


@cli_command("agent-info")
@formatted
@connected
def agent_info(client: ApiClient, output: OutputFormat) -> None:
    """Counters and states of this one server or client; it needs no leader."""
    stats = client.get("/v1/agent/self")["stats"]
    if output.printed(stats):
        return
    for part, values in sorted(stats.items()):
        heading(part)
        pairs((f"  {name}", plain(value)) for name, value in sorted(values.items()))
