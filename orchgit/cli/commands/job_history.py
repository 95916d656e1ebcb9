"""`orchgit job history`, `inspect`, `tag` and `scaling-events`: the past of a job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_command, cli_group
from orchgit.cli.commands.job_find import find_job, of_job
from orchgit.cli.commands.job_status import origin_line
from orchgit.cli.completion import JOB, id_argument
from orchgit.cli.options import (
    connected,
    formatted,
    option,
    option_field,
    options_of,
    verbose_option,
)
from orchgit.cli.printing.diff_text import print_job_diff
from orchgit.cli.printing.output import moment, pairs, plain, short, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.printing.tokens import token_text


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    with_diffs: bool = option_field("p", is_flag=True, help="Show what each version changed.")
    full: bool = option_field("full", is_flag=True, help="Show each version as a whole.")
    version: int | None = option_field("version", type=int, help="Only this version.")
    diff_version: int | None = option_field(
        "diff-version", type=int, help="Compare each version with this one."
    )
    diff_tag: str | None = option_field(
        "diff-tag", help="Compare each version with the one of this tag."
    )
    verbose: bool = option_field("verbose", is_flag=True, help="Show whole ids.")

    @property
    def compares(self) -> bool:
        return self.with_diffs or self.diff_version is not None or self.diff_tag is not None

    def params(self) -> dict[str, Any]:
        given = {"diff_version": self.diff_version, "diff_tag": self.diff_tag}
        return {"diffs": "true", **given} if self.compares else {}


@cli_command("history")
@id_argument("identifier", JOB)
@options_of(HistoryOptions)
@formatted
@connected
def history(
    client: ApiClient, identifier: str, options: HistoryOptions, output: OutputFormat
) -> None:
    """The versions of a job, newest first, with their commits."""
    if options.full and options.compares:
        raise click.UsageError("cannot show differences and whole versions: leave out -full or -p")
    found = find_job(client, identifier)
    data = of_job(client, found, "versions", **options.params())
    versions, diffs = data["Versions"], data.get("Diffs") or []
    if options.version is not None:
        at = [n for n, each in enumerate(versions) if each["Version"] == options.version]
        if not at:
            raise ApiError(
                f"cannot find version {options.version} of job {identifier!r}: "
                f"`orchgit job history {identifier}` lists them"
            )
        versions, diffs = versions[at[0] : at[0] + 1], diffs[at[0] : at[0] + 1]
    if output.printed(versions[0] if options.version is not None else versions):
        return
    tokens = _tokens_of_versions(client, found)
    for number, version in enumerate(versions):
        if number:
            click.echo()
        _show_version(version, token_text(tokens.get(version["Version"])), options.verbose)
        if options.compares and number < len(diffs) and diffs[number]:
            click.echo("Diff")
            print_job_diff(diffs[number], options.verbose)
        if options.full:
            click.echo(json.dumps(version, indent=4))


def _tokens_of_versions(client: ApiClient, job: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Returns whose tokens made the job's versions; servers of earlier versions do not know."""
    try:
        found = client.get(f"/v1/gitops/authors/{quoted(job['ID'])}", namespace=job["Namespace"])
    except ApiError:
        return {}
    return {int(each["Key"].rpartition("@")[2]): each for each in found}


def _show_version(version: dict[str, Any], token: str, verbose: bool) -> None:
    tag = version.get("VersionTag") or {}
    pairs(
        (
            ("Version", str(version["Version"])),
            ("Stable", str(version["Stable"]).lower()),
            ("Submit Date", moment(version["SubmitTime"])),
            ("Tag Name", plain(tag.get("Name", ""))),
            ("Tag Description", plain(tag.get("Description", ""))),
            ("Commit", plain(origin_line(version.get("Origin") or {}, verbose))),
            ("Token", plain(token)),
        )
    )


@cli_command("inspect")
@id_argument("identifier", JOB)
@option("version", type=int, help="A past version.")
@option("hcl", is_flag=True, help="The text the version was made from.")
@option("with-vars", is_flag=True, help="With -hcl: the variables it was submitted with, too.")
@formatted
@connected
def inspect(
    client: ApiClient,
    identifier: str,
    version: int | None,
    hcl: bool,
    with_vars: bool,
    output: OutputFormat,
) -> None:
    """The whole job as JSON."""
    found = find_job(client, identifier)
    if hcl or with_vars:
        if version is None:
            version = int(of_job(client, found)["Version"])
        submission = of_job(client, found, "submission", version=version)
        if not submission:
            raise ApiError(f"cannot show the text of job {found['ID']!r}: none was submitted")
        if with_vars:
            for name, value in (submission.get("VariableFlags") or {}).items():
                click.echo(f'{name} = "{value}"')
            if submission.get("Variables"):
                click.echo(submission["Variables"])
        click.echo(submission["Source"], nl=False)
        return
    data = of_job(client, found, version=version)
    if output.template is None:
        data = {"Job": data}
    if not output.printed(data):
        click.echo(json.dumps(data, indent=4))


@cli_group("tag")
def tag() -> None:
    """Names of versions: a version that has one is never forgotten."""


@tag.command("apply")
@id_argument("identifier", JOB)
@option("name", dest="tag_name", help="Name of the tag; each version has at most one.")
@option("description", default="", help="What the version is.")
@option("version", type=int, help="Which version; the newest if not given.")
@connected
def apply(
    client: ApiClient,
    identifier: str,
    tag_name: str | None,
    description: str,
    version: int | None,
) -> None:
    """Name a version of a job."""
    if not tag_name:
        raise click.UsageError("cannot tag: give the tag's name with -name")
    found = find_job(client, identifier)
    body: dict[str, Any] = {"Name": tag_name, "Description": description}
    if version is None:
        version = int(of_job(client, found)["Version"])
    path = f"/v1/job/{quoted(found['ID'])}/versions/{quoted(tag_name)}/tag"
    client.post(path, {**body, "Version": version}, namespace=found["Namespace"])
    click.echo(f"Job {found['ID']!r} version {version} is tagged {tag_name!r}.")


@tag.command("unset")
@id_argument("identifier", JOB)
@option("name", dest="tag_name", help="Name of the tag.")
@connected
def unset(client: ApiClient, identifier: str, tag_name: str | None) -> None:
    """Take a version's tag away."""
    if not tag_name:
        raise click.UsageError("cannot take a tag away: give the tag's name with -name")
    found = find_job(client, identifier)
    path = f"/v1/job/{quoted(found['ID'])}/versions/{quoted(tag_name)}/tag"
    client.delete(path, namespace=found["Namespace"])
    click.echo(f"Tag {tag_name!r} of job {found['ID']!r} is taken away.")


@cli_command("scaling-events")
@id_argument("identifier", JOB)
@verbose_option
@formatted
@connected
def scaling_events(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    """When the counts of a job were changed, and why."""
    groups = of_job(client, find_job(client, identifier), "scale")["TaskGroups"] or {}
    if output.printed(groups):
        return
    events = sorted(
        ((name, each) for name, group in groups.items() for each in group.get("Events") or []),
        key=lambda item: -int(item[1]["Time"]),
    )
    more = ("Error", "Message", "Eval ID") if verbose else ()
    rows = []
    for name, each in events:
        details = (
            str(each["Error"]).lower(),
            plain(each["Message"]),
            short(each.get("EvalID") or "", verbose),
        )
        count = "-" if each.get("Count") is None else each["Count"]
        rows.append(
            (
                plain(name),
                count,
                each["PreviousCount"],
                *(details if verbose else ()),
                moment(each["Time"]),
            )
        )
    table(("Task Group", "Count", "PrevCount", *more, "Date"), rows, empty="No events found")
