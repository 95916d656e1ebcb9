"""`orchgit acl role`: create, list, info, update, delete."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.acl_text import NONE, print_role
from orchgit.cli.printing.output import plain, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("role")
def role() -> None:
    """Named sets of policies."""


@role.command("create")
@option("name", help="The name of the role.")
@option("description", default="", help="What the role is for.")
@option("policy", multiple=True, help="A policy of the role; repeat it.")
@formatted
@connected
def create(
    client: ApiClient,
    name: str | None,
    description: str,
    policy: tuple[str, ...],
    output: OutputFormat,
) -> None:
    """Create a role."""
    if not name:
        raise click.UsageError("ACL role name must be specified using the -name flag")
    if not policy:
        raise click.UsageError("At least one policy name must be specified using the -policy flag")
    body = {"Name": name, "Description": description, "Policies": _links(policy)}
    made = client.put("/v1/acl/role", body)
    if not output.printed(made):
        print_role(made)


def _links(names: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"Name": each} for each in names]


@role.command("list")
@formatted
@connected
def list_(client: ApiClient, output: OutputFormat) -> None:
    """The roles that the token may see."""
    found = client.get("/v1/acl/roles")
    if not output.printed(found):
        table(
            ("ID", "Name", "Description", "Policies"),
            (
                (
                    each["ID"],
                    plain(each["Name"]),
                    plain(each["Description"] or NONE),
                    plain(",".join(link["Name"] for link in each["Policies"] or ())),
                )
                for each in found
            ),
            empty="No ACL roles found",
        )


@role.command("info")
@click.argument("role_id")
@option("by-name", is_flag=True, help="ROLE_ID is the role's name.")
@formatted
@connected
def info(client: ApiClient, role_id: str, by_name: bool, output: OutputFormat) -> None:
    """One role."""
    found = client.get(f"/v1/acl/role/{'name/' if by_name else ''}{quoted(role_id)}")
    if not output.printed(found):
        print_role(found)


@role.command("update")
@click.argument("role_id")
@option("name", help="The new name.")
@option("description", help="What the role is for.")
@option("policy", multiple=True, help="A policy to add; with -no-merge: one of its policies.")
@option("no-merge", is_flag=True, help="Replace the whole role instead of adding to it.")
@formatted
@connected
def update(
    client: ApiClient,
    role_id: str,
    name: str | None,
    description: str | None,
    policy: tuple[str, ...],
    no_merge: bool,
    output: OutputFormat,
) -> None:
    """Change a role. Without -no-merge, what is not named stays."""
    path = f"/v1/acl/role/{quoted(role_id)}"
    found = client.get(path)
    body: dict[str, Any] = {"ID": found["ID"]}
    if no_merge:
        if not name or not policy:
            raise click.UsageError("cannot replace the role: -no-merge needs -name and -policy")
        body |= {"Name": name, "Description": description or "", "Policies": _links(policy)}
    else:
        body |= {
            "Name": name or found["Name"],
            "Description": found["Description"] if description is None else description,
            "Policies": [*(found["Policies"] or ()), *_links(policy)],
        }
    changed = client.put(path, body)
    if not output.printed(changed):
        print_role(changed)


@role.command("delete")
@click.argument("role_id")
@connected
def delete(client: ApiClient, role_id: str) -> None:
    """Delete a role; tokens that have it lose its rights."""
    client.delete(f"/v1/acl/role/{quoted(role_id)}")
    click.echo(f"ACL role {role_id} successfully deleted")
