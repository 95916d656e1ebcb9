"""`orchgit scaling`: what an autoscaler may do with the counts of jobs."""

from __future__ import annotations

import json

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.completion import SCALING_POLICY, id_argument
from orchgit.cli.options import connected, formatted, option, verbose_option
from orchgit.cli.printing.output import pairs, plain, short, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("scaling")
def scaling() -> None:
    """What an autoscaler may do with the counts of jobs."""


@scaling.group("policy")
def policy() -> None:
    """The scaling policies of jobs."""


@policy.command("list")
@option("job", help="Only policies of this job.")
@option("type", dest="kind", help="Only policies of this type.")
@verbose_option
@formatted
@connected
def list_(
    client: ApiClient, job: str | None, kind: str | None, verbose: bool, output: OutputFormat
) -> None:
    """All scaling policies."""
    found = client.get("/v1/scaling/policies", job=job, type=kind)
    if not output.printed(found):
        table(
            ("ID", "Enabled", "Type", "Target"),
            (
                (
                    short(each["ID"], verbose),
                    str(each["Enabled"]).lower(),
                    plain(each["Type"]),
                    plain(_target(each["Target"])),
                )
                for each in found
            ),
            empty="No policies found",
        )


@policy.command("info")
@id_argument("identifier", SCALING_POLICY, required=False)
@verbose_option
@formatted
@connected
def info(client: ApiClient, identifier: str | None, verbose: bool, output: OutputFormat) -> None:
    """One scaling policy with its bounds; with -json or -t, and without an id, all of them."""
    if not identifier:
        if not output.is_text:
            output.printed(client.get("/v1/scaling/policies"))
            return
        raise click.UsageError("cannot tell which policy: give its id")
    found = client.find("scaling policy", "/v1/scaling/policies", identifier)
    data = client.get(f"/v1/scaling/policy/{found['ID']}")
    if output.printed(data):
        return
    pairs(
        (
            ("ID", short(data["ID"], verbose)),
            ("Enabled", str(data["Enabled"]).lower()),
            ("Target", plain(_target(data["Target"]))),
            ("Min", str(data["Min"])),
            ("Max", str(data["Max"])),
        )
    )
    click.echo("\nPolicy:")
    text = json.dumps(data["Policy"], indent=2) if data.get("Policy") else "<empty>"
    click.echo(text)


def _target(target: dict[str, str]) -> str:
    return ",".join(f"{key}:{value}" for key, value in sorted(target.items()))
