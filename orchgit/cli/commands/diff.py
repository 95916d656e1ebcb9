"""`orchgit diff [REV | REV1..REV2]`: what a push of this working tree would change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.commands.eval import failure_lines
from orchgit.cli.job_files.working_tree import (
    TreeFile,
    committed_files,
    remote_source_name,
    top_level,
    working_files,
)
from orchgit.cli.options import connected, formatted, option, verbose_option
from orchgit.cli.printing.diff_text import count_text, print_job_diff
from orchgit.cli.printing.output import console, plain
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.errors import OrchgitError

NO_CHANGE, CHANGES, ERROR = 0, 1, 255

ACTION_STYLES = {
    "create": "[green]create[/green]",
    "update": "[yellow]update[/yellow]",
    "delete": "[red]delete[/red]",
}


@click.command("diff")
@click.argument("revision", required=False)
@option("source", help="The source to compare with; by default that of the git remote.")
@option("C", dest="directory", default=".", help="A directory of the working tree.")
@formatted
@verbose_option
@connected
def diff(
    client: ApiClient,
    revision: str | None,
    source: str | None,
    directory: str,
    output: OutputFormat,
    verbose: bool,
) -> None:
    """Show what a push of this working tree would change, with its uncommitted files.

    With REVISION: what a push of that commit would change. With REV1..REV2: what changes between
    two commits, whatever runs now. Exit code 0: no job changes, 1: some job changes, 255: error.
    """
    try:
        plan = _plan(client, Path(directory), revision, source)
    except OrchgitError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(ERROR) from error
    if not output.printed(plan):
        _show(plan, verbose)
    if plan["Problems"]:
        raise SystemExit(ERROR)
    changed = any(job["Action"] != "unchanged" for job in plan["Jobs"])
    raise SystemExit(CHANGES if changed else NO_CHANGE)


def _plan(
    client: ApiClient, directory: Path, revision: str | None, source: str | None
) -> dict[str, Any]:
    root = top_level(directory)
    name = source or remote_source_name(root) or _only_source(client)
    body: dict[str, Any] = {}
    if revision and ".." in revision:
        old, _, new = revision.partition("..")
        body["BaseFiles"] = _encoded(committed_files(root, old or "HEAD"))
        body["Files"] = _encoded(committed_files(root, new or "HEAD"))
    else:
        files = committed_files(root, revision) if revision else working_files(root)
        body["Files"] = _encoded(files)
    return dict(client.post(f"/v1/gitops/source/{name}/plan", body))


def _only_source(client: ApiClient) -> str:
    names = [each["Name"] for each in client.get("/v1/gitops/sources")]
    if len(names) != 1:
        raise ApiError(
            "cannot tell which source this working tree belongs to: name it with -source "
            f"({', '.join(names) or 'there are none yet: `orchgit source add`'})"
        )
    return str(names[0])


def _encoded(files: list[TreeFile]) -> list[dict[str, str]]:
    return [each.encoded() for each in files]


def _show(plan: dict[str, Any], verbose: bool) -> None:
    for problem in plan["Problems"]:
        console(stderr=True).print(f"[red]{plain(problem)}[/red]")
    for job in plan["Jobs"]:
        if job["Action"] != "unchanged":
            _show_job(job, verbose)
    closed = [each["Reason"] for each in plan.get("Gates") or [] if not each["IsOpen"]]
    if closed:
        console().print(f"[yellow]would wait for:[/yellow] {plain('; '.join(closed))}")
    counts = plan.get("Summary") or {}
    words = [
        f"{counts[name]} to {name.lower()}"
        for name in ("Create", "Update", "Delete")
        if counts.get(name)
    ]
    if not plan["Problems"]:
        click.echo(
            f"Jobs: {', '.join(words)}, {counts.get('Unchanged', 0)} unchanged."
            if words
            else f"No changes: {counts.get('Unchanged', 0)} jobs are registered as their files say."
        )


def _show_job(job: dict[str, Any], verbose: bool) -> None:
    where = f" ({job['File']}:{job['Line']})" if job.get("File") else ""
    console().print(f"{ACTION_STYLES[job['Action']]} [bold]{plain(job['JobID'])}[/bold]{where}")
    if job.get("Diff") and job["Action"] == "update":
        print_job_diff(job["Diff"], verbose)
    groups = (job.get("Annotations") or {}).get("DesiredTGUpdates") or {}
    for group, counts in sorted(groups.items()):
        text = count_text(counts)
        if text:
            console().print(f"    group {plain(group)}: {text}")
    for group, metric in sorted((job.get("FailedTGAllocs") or {}).items()):
        console().print(f"    [yellow]group {plain(group)} cannot be placed:[/yellow]")
        for line in failure_lines(metric):
            console().print(f"      * {plain(line)}")
    for warning in job.get("Warnings") or []:
        console().print(f"    [yellow]warning:[/yellow] {plain(warning)}")
