"""`orchgit diff [REV | REV1..REV2]`: what a push of this working tree would change."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.job_files.working_tree import (
    TreeFile,
    committed_files,
    remote_source_name,
    top_level,
    working_files,
)
from orchgit.cli.options import (
    connected,
    formatted,
    option,
    option_field,
    options_of,
    verbose_option,
)
from orchgit.cli.printing.diff_text import print_job_diff
from orchgit.cli.printing.output import console, plain
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.errors import InvalidInputError, OrchgitError
from orchgit.gitops.commits.fit_markdown import PlannedCommit, comment_text
from orchgit.gitops.commits.fit_text import (
    JobKey,
    blocked_lines,
    counts_text,
    fit_lines,
    verdict_text,
)
from orchgit.model.fit import FitReport, JobFit

NO_CHANGE, CHANGES, DOES_NOT_FIT, ERROR = 0, 1, 2, 255

ACTION_STYLES = {
    "create": "[green]create[/green]",
    "update": "[yellow]update[/yellow]",
    "delete": "[red]delete[/red]",
}


@dataclass(frozen=True, slots=True)
class FitOptions:
    fit: bool = option_field("fit", is_flag=True, help="Show whether all of it fits, and why not.")
    markdown: bool = option_field(
        "markdown", is_flag=True, help="Write the plan as a comment for a pull request."
    )
    out: str | None = option_field("o", help="Write to this file.")


CAUSES = {
    "drift": "not changed by this commit: changed by hand",
    "release": "not changed by this commit: taken over",
}


@cli_command("diff")
@click.argument("revision", required=False)
@option("source", help="The source to compare with; by default that of the git remote.")
@option("C", dest="directory", default=".", help="A directory of the working tree.")
@options_of(FitOptions, "fit_options")
@formatted
@verbose_option
@connected
def diff(
    client: ApiClient,
    revision: str | None,
    source: str | None,
    directory: str,
    fit_options: FitOptions,
    output: OutputFormat,
    verbose: bool,
) -> None:
    """Show what a push of this working tree would change, with its uncommitted files.

    With REVISION: what a push of that commit would change. With REV1..REV2: what changes between
    two commits, whatever runs now. With -fit, all jobs are planned together on the cluster as it
    is. Exit code 0: no job changes, 1: some job changes, 2: with -fit, it does not fit, 255: error.
    """
    try:
        plan = _plan(client, Path(directory), revision, source, fit_options)
        with _written_to(fit_options.out):
            if fit_options.markdown:
                click.echo(comment_text(_planned_commit(plan)), nl=False)
            elif not output.printed(plan):
                show_plan(plan, verbose)
                _show_fit(plan, fit_options.fit)
    except OrchgitError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(ERROR) from error
    if plan["Problems"]:
        raise SystemExit(ERROR)
    if fit_options.fit and not plan["Fit"]["Fits"]:
        raise SystemExit(DOES_NOT_FIT)
    changed = any(job["Action"] != "unchanged" for job in plan["Jobs"])
    raise SystemExit(CHANGES if changed else NO_CHANGE)


@contextmanager
def _written_to(path: str | None) -> Iterator[None]:
    """Writes what is printed to the file; raises InvalidInputError if it cannot be written."""
    if path is None:
        yield
        return
    text = io.StringIO()
    with redirect_stdout(text):
        yield
    try:
        Path(path).write_text(text.getvalue(), "utf-8")
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {error.strerror}") from error


def _plan(
    client: ApiClient,
    directory: Path,
    revision: str | None,
    source: str | None,
    options: FitOptions,
) -> dict[str, Any]:
    root = top_level(directory)
    name = source or _source_of_remote(client, root) or _only_source(client)
    body: dict[str, Any] = {}
    if options.fit:
        body["Fit"] = True
    if revision and ".." in revision:
        if options.fit:
            raise InvalidInputError(
                f"cannot tell whether {revision} fits: a range is compared without the cluster; "
                "name one commit"
            )
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


def show_plan(plan: dict[str, Any], verbose: bool) -> None:
    """Prints the changes of a plan, what is held, and its problems."""
    for problem in plan["Problems"]:
        console(stderr=True).print(f"[red]{plain(problem)}[/red]")
    for job in plan["Jobs"]:
        if job["Action"] != "unchanged":
            _show_job(job, verbose)
    for each in plan.get("Held") or ():
        job_id, why = plain(each["Version"]["JobID"]), plain(each["Text"])
        console().print(f"[yellow]![/yellow] [bold]{job_id}[/bold]: {why}")
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
            else f"No changes; unchanged jobs: {counts.get('Unchanged', 0)}."
        )


def _show_fit(plan: dict[str, Any], wanted: bool) -> None:
    """Prints the fit report if it is wanted, else one line if the plan does not fit."""
    if not plan.get("Fit") or plan["Problems"]:
        return
    fit = msgspec.convert(plan["Fit"], FitReport)
    if wanted:
        click.echo("\nWill it fit?")
        for line in fit_lines(fit, _actions(plan)):
            click.echo(line)
    elif not fit.fits:
        click.echo(f"{verdict_text(fit)}. `orchgit diff -fit` shows more.")


def _actions(plan: dict[str, Any]) -> dict[JobKey, str]:
    return {(job["Namespace"], job["JobID"]): job["Action"] for job in plan["Jobs"]}


def _planned_commit(plan: dict[str, Any]) -> PlannedCommit:
    return PlannedCommit(
        source=plan["Source"],
        actions=_actions(plan),
        unchanged=plan["Summary"]["Unchanged"],
        problems=plan["Problems"],
        warnings=plan["Warnings"],
        fit=msgspec.convert(plan["Fit"], FitReport) if plan.get("Fit") else None,
        plan_hash=plan["PlanHash"],
    )


def _show_job(job: dict[str, Any], verbose: bool) -> None:
    where = f" ({job['File']}:{job['Line']})" if job.get("File") else ""
    why = f"  [yellow]{CAUSES[job['Cause']]}[/yellow]" if job.get("Cause") in CAUSES else ""
    console().print(
        f"{ACTION_STYLES[job['Action']]} [bold]{plain(job['JobID'])}[/bold]{where}{why}"
    )
    if job.get("Stage"):
        waits = ", ".join(
            f"{'every job before it' if each['JobID'] == '*' else each['JobID']} "
            f"({each['Condition']})"
            for each in job["WaitsFor"]
        )
        console().print(plain(f"  stage {job['Stage'] + 1}, after {waits}"))
    if job.get("ByHand"):
        console().print(f"    overwrites {plain(job['ByHand']['Text'])}")
    if job.get("Diff") and job["Action"] == "update":
        print_job_diff(job["Diff"], verbose)
    fit = msgspec.convert(job["Fit"], JobFit) if job.get("Fit") else JobFit()
    for group in () if fit.launch_only else fit.groups:
        only_blocked = group.wanted == group.blocked and not group.fits
        if not only_blocked and (text := counts_text([group])):
            console().print(f"    group {plain(group.name)}: {text}")
    for line in blocked_lines(fit):
        console().print(f"    [yellow]{plain(line)}[/yellow]")


def _source_of_remote(client: ApiClient, root: Path) -> str | None:
    """Returns the source of the built-in repository that the working tree was cloned from; None if
    it was cloned from elsewhere. Raises ApiError if several sources follow that repository."""
    repository = remote_source_name(root)
    if repository is None:
        return None
    found = [
        each["Name"]
        for each in client.get("/v1/gitops/sources")
        if (each["Repository"] or each["Name"]) == repository
    ]
    if len(found) > 1:
        raise ApiError(
            f"cannot tell which source to compare with: {', '.join(sorted(found))} follow "
            f"repository {repository!r}; name one with -source"
        )
    return found[0] if found else repository
