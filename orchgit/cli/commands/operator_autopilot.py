"""`orchgit operator autopilot`: how the leader looks after the servers."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, length, no_effect_option, option
from orchgit.cli.printing.output import pairs, plain, table
from orchgit.cli.printing.output_format import OutputFormat

_PATH = "/v1/operator/autopilot/configuration"
_COLUMNS = (
    *("Name", "Address", "SerfStatus", "Healthy", "Voter", "Leader", "LastContact"),
    *("LastIndex", "Version", "StableSince"),
)


@cli_group("autopilot")
def autopilot() -> None:
    """New servers get a vote, dead ones are taken out."""


@autopilot.command("get-config", ignores_extra=True)
@formatted
@connected
def get_config(client: ApiClient, output: OutputFormat) -> None:
    """The settings."""
    config = client.get(_PATH)
    if not output.printed(config):
        shown = (
            "CleanupDeadServers",
            "LastContactThreshold",
            "MaxTrailingLogs",
            "MinQuorum",
            "ServerStabilizationTime",
            "EnableRedundancyZones",
            "DisableUpgradeMigration",
            "EnableCustomUpgrades",
        )
        pairs((name, _shown(config.get(name, False))) for name in shown)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@autopilot.command("set-config")
@no_effect_option("disable-upgrade-migration", "upgrades move no servers here", type=bool)
@option("cleanup-dead-servers", type=bool, help="Take dead servers out of the cluster.")
@option("last-contact-threshold", type=length, help="Silent for longer is unhealthy, e.g. 200ms.")
@option("max-trailing-logs", type=int, help="Lacking more entries is unhealthy.")
@option("min-quorum", type=int, help="Never leave fewer servers with a vote.")
@option("server-stabilization-time", type=length, help="So long healthy before a vote, e.g. 10s.")
@connected
def set_config(client: ApiClient, **given: object) -> None:
    """Change only the autopilot settings that are given."""
    names = {name: "".join(part.capitalize() for part in name.split("_")) for name in given}
    changes = {names[name]: value for name, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("cannot change anything: no setting is given; -h lists them")
    config = client.get(_PATH)
    if not client.put(_PATH, {**config, **changes}, cas=str(config["ModifyIndex"])):
        raise ApiError("cannot set it: somebody else changed it meanwhile; look and try again")
    click.echo("Configuration updated!")


@autopilot.command("health", ignores_extra=True)
@formatted
@connected
def health(client: ApiClient, output: OutputFormat) -> None:
    """Show the health of each server; exits with 1 if the cluster is not healthy."""
    found = client.autopilot_health()
    if not output.printed(found):
        click.echo(f"Healthy: {str(found['Healthy']).lower()}")
        click.echo(f"FailureTolerance: {found['FailureTolerance']}")
        click.echo(f"Leader: {found['Leader']}")
        click.echo(f"Voters: {', '.join(found.get('Voters') or [])}")
        click.echo()
        table(
            _COLUMNS,
            ([plain(_shown(each[name])) for name in _COLUMNS] for each in found["Servers"]),
        )
    if not found["Healthy"]:
        raise SystemExit(1)
