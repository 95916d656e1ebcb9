"""`orchgit source retry`, and the held versions of a source as a table."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, detach_option, formatted, option
from orchgit.cli.printing.output import ago, heading, plain, short, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.user_name import user_name


@cli_command("retry")
@click.argument("name")
@option("job", multiple=True, help="A job whose held version to apply, by its id; repeatable.")
@option("all", dest="every", is_flag=True, help="Apply every version that the source holds.")
@detach_option
@formatted
@connected
def retry(
    client: ApiClient,
    name: str,
    job: tuple[str, ...],
    every: bool,
    detach: bool,
    output: OutputFormat,
) -> None:
    """Apply held versions of the applied commit again, in a rollout of their own.

    A version that failed, or that was reverted, is held until its file changes. Exit code 0: all
    are healthy now, 1: some are not.
    """
    if bool(job) == every:
        raise ApiError("cannot retry: name the jobs with -job, or give -all")
    body = {"Jobs": list(job), "All": every, "By": user_name()}
    made = client.post(f"/v1/gitops/source/{name}/retry", body)
    names = ", ".join(each["JobID"] for each in made["Jobs"])
    if output.is_text:
        click.echo(f"Retrying {names or 'nothing'} in rollout {short(made['ID'])}...")
    follow_to_end(client, made, detach, output)


def follow_to_end(
    client: ApiClient, rollout: dict[str, Any], detach: bool, output: OutputFormat
) -> None:
    """Follows a rollout unless the user detaches, and exits with its exit code. As JSON the rollout
    is printed once: as it ended, or with -detach as it began."""
    if detach:
        output.printed(rollout)
        return
    # Imported here: other commands need none of its modules, and should start fast.
    from orchgit.cli.rollout_watching import RolloutWatch

    code = RolloutWatch(client, is_quiet=not output.is_text).follow(rollout["ID"])
    if not output.is_text:
        output.printed(client.get(f"/v1/gitops/rollout/{rollout['ID']}"))
    raise SystemExit(code)


def show_held(client: ApiClient, name: str) -> None:
    """Prints the versions that the source keeps from the cluster, if there are any."""
    found = client.get(f"/v1/gitops/source/{name}/held")
    if not found:
        return
    heading("Held versions")
    table(
        ("Job", "Since commit", "Reason", "When"),
        (
            (
                plain(each["JobID"] + ("" if each["SpecID"] else " (deletion)")),
                short(each["CommitID"]),
                plain(each["Reason"]),
                ago(each["Since"]),
            )
            for each in found
        ),
    )
    click.echo(f"`orchgit source retry {name} -job JOB` applies a held version again.")
