"""`orchgit source retry`, and the held versions of a source as a table."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, detach_option, option
from orchgit.cli.printing.output import ago, heading, plain, short, table
from orchgit.cli.user_name import user_name


@cli_command("retry")
@click.argument("name")
@option("job", multiple=True, help="A job whose held version to apply, by its id; repeatable.")
@option("all", dest="every", is_flag=True, help="Apply every version that the source holds.")
@detach_option
@connected
def retry(client: ApiClient, name: str, job: tuple[str, ...], every: bool, detach: bool) -> None:
    """Apply held versions of the applied commit again, in a rollout of their own.

    A version that failed, or that was reverted, is held until its file changes. Exit code 0: all
    are healthy now, 1: some are not.
    """
    if bool(job) == every:
        raise ApiError("cannot retry: name the jobs with -job, or give -all")
    body = {"Jobs": list(job), "All": every, "By": user_name()}
    made = client.post(f"/v1/gitops/source/{name}/retry", body)
    names = ", ".join(each["JobID"] for each in made["Jobs"])
    click.echo(f"Retrying {names or 'nothing'} in rollout {short(made['ID'])}...")
    if not detach:
        # Imported here: other commands need none of its modules, and should start fast.
        from orchgit.cli.rollout_watching import RolloutWatch

        raise SystemExit(RolloutWatch(client).follow(made["ID"]))


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
