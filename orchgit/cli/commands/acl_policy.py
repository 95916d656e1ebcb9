"""`orchgit acl policy`: list, info, apply, delete, self."""

from __future__ import annotations

from dataclasses import dataclass

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.input_text import text_of_path
from orchgit.cli.options import connected, formatted, option_field, options_of
from orchgit.cli.printing.acl_text import NONE, print_policy
from orchgit.cli.printing.output import plain, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("policy")
def policy() -> None:
    """What tokens and roles may do."""


@policy.command("list")
@formatted
@connected
def list_(client: ApiClient, output: OutputFormat) -> None:
    """The policies that the token may see."""
    found = client.get("/v1/acl/policies")
    if not output.printed(found):
        table(
            ("Name", "Description"),
            ((plain(each["Name"]), plain(each["Description"] or NONE)) for each in found),
            empty="No policies found",
        )


@policy.command("info")
@click.argument("name")
@formatted
@connected
def info(client: ApiClient, name: str, output: OutputFormat) -> None:
    """One policy and its rules."""
    found = client.get(f"/v1/acl/policy/{quoted(name)}")
    if not output.printed(found):
        print_policy(found)


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    description: str | None = option_field("description", help="What the policy is for.")
    job: str | None = option_field("job", help="Bind the policy to this job's identities.")
    group: str | None = option_field("group", help="Only to this group of the job.")
    task: str | None = option_field("task", help="Only to this task of the group.")


@policy.command("apply")
@click.argument("name")
@click.argument("path")
@options_of(PolicyOptions)
@connected
def apply(client: ApiClient, name: str, path: str, options: PolicyOptions) -> None:
    """Create or change a policy. PATH is a file with its rules (`-`: standard input).

    With -job the policy belongs to the identities of that job in the namespace of -namespace.
    """
    body = {
        "Name": name,
        "Description": options.description or "",
        "Rules": text_of_path(path),
    }
    if (options.group or options.task) and not options.job:
        raise click.UsageError("cannot bind to a group or task without -job")
    if options.task and not options.group:
        raise click.UsageError("cannot bind to a task without -group")
    job = {"JobID": options.job, "Group": options.group, "Task": options.task}
    if options.job:
        named = {key: value for key, value in job.items() if value}
        body["JobACL"] = {"Namespace": client.namespace or "default", **named}  # type: ignore[assignment]
    client.put(f"/v1/acl/policy/{quoted(name)}", body)
    click.echo(f'Successfully wrote "{name}" ACL policy!')


@policy.command("delete")
@click.argument("name")
@connected
def delete(client: ApiClient, name: str) -> None:
    """Delete a policy; tokens and roles that name it lose its rights."""
    client.delete(f"/v1/acl/policy/{quoted(name)}")
    click.echo(f"Successfully deleted {name} policy!")


@policy.command("self")
@formatted
@connected
def own(client: ApiClient, output: OutputFormat) -> None:
    """The policies of the token in use, those of its roles among them."""
    token = client.get("/v1/acl/token/self")
    if token["Type"] == "management":
        if output.printed([]):
            return
        click.echo("This is a management token. No individual policies are assigned.")
        return
    found = client.get("/v1/acl/policies")
    if not output.printed(found):
        table(
            ("Name", "Description"),
            ((plain(each["Name"]), plain(each["Description"] or NONE)) for each in found),
            empty="No policies are assigned to this token.",
        )
