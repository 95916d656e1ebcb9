"""`orchgit acl token`: create, list, info, self, update, delete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.input_text import text_of_path
from orchgit.cli.options import connected, formatted, option, option_field, options_of
from orchgit.cli.printing.acl_text import print_token
from orchgit.cli.printing.output import plain, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.errors import InvalidInputError


@cli_group("token")
def token() -> None:
    """Tokens: who may do what."""


@dataclass(frozen=True, slots=True)
class NewTokenOptions:
    name: str | None = option_field("name", help="What the token is for.")
    type: str = option_field("type", default="client", help="client or management.")
    is_global: bool = option_field("global", is_flag=True, help="Valid in every region.")
    policy: tuple[str, ...] = option_field("policy", multiple=True, help="A policy; repeat it.")
    role_id: tuple[str, ...] = option_field("role-id", multiple=True, help="A role; repeat it.")
    role_name: tuple[str, ...] = option_field(
        "role-name", multiple=True, help="A role by its name; repeat it."
    )
    ttl: str | None = option_field("ttl", help="How long the token is valid, such as 8h.")
    accessor: str | None = option_field("accessor", help="The accessor id to use, a UUID.")


@token.command("create")
@click.argument("path", required=False)
@options_of(NewTokenOptions)
@formatted
@connected
def create(
    client: ApiClient, path: str | None, options: NewTokenOptions, output: OutputFormat
) -> None:
    """Create a token. PATH is a file with the secret to use, a UUID (`-`: standard input)."""
    if path is not None and not options.accessor:
        raise click.UsageError("A SecretID file path was provided but -accessor was not set")
    if options.accessor and path is None:
        raise click.UsageError("cannot choose an accessor without a file that holds the secret")
    body: dict[str, Any] = {
        "Name": options.name or "",
        "Type": options.type,
        "Policies": list(options.policy) or None,
        "Roles": _links(options.role_id, options.role_name) or None,
        "Global": options.is_global,
    }
    if options.ttl:
        body["ExpirationTTL"] = options.ttl
    if path is not None:
        body |= {"AccessorID": options.accessor, "SecretID": text_of_path(path).strip()}
    made = client.put("/v1/acl/token", body)
    if not output.printed(made):
        print_token(made)


def _links(ids: tuple[str, ...], names: tuple[str, ...]) -> list[dict[str, str]]:
    return [*({"ID": each} for each in ids), *({"Name": each} for each in names)]


@token.command("list")
@formatted
@connected
def list_(client: ApiClient, output: OutputFormat) -> None:
    """All tokens, without their secrets."""
    found = client.get("/v1/acl/tokens")
    if output.printed(found):
        return
    now = datetime.now(UTC).isoformat()
    table(
        ("Name", "Type", "Global", "Accessor ID", "Expired"),
        (
            (
                plain(each["Name"]),
                each["Type"],
                str(each["Global"]).lower(),
                each["AccessorID"],
                str(bool(each["ExpirationTime"]) and each["ExpirationTime"] < now).lower(),
            )
            for each in found
        ),
        empty="No tokens found",
    )


@token.command("info")
@click.argument("accessor_id")
@formatted
@connected
def info(client: ApiClient, accessor_id: str, output: OutputFormat) -> None:
    """One token by its accessor id, with its secret."""
    found = client.get(f"/v1/acl/token/{quoted(accessor_id)}")
    if not output.printed(found):
        print_token(found)


@token.command("self")
@formatted
@connected
def own(client: ApiClient, output: OutputFormat) -> None:
    """The token in use."""
    if not client.has_token:
        raise InvalidInputError(
            "cannot show the token in use: there is none; give -token, or set ORCHGIT_TOKEN"
        )
    found = client.get("/v1/acl/token/self")
    if not output.printed(found):
        print_token(found)


@token.command("update")
@click.argument("accessor_id")
@option("name", help="The new name.")
@option("type", help="client or management.")
@option("policy", multiple=True, help="The policies it has from now on; repeat it.")
@option("role-id", multiple=True, help="The roles it has from now on; repeat it.")
@option("role-name", multiple=True, help="The same by their names; repeat it.")
@formatted
@connected
def update(
    client: ApiClient,
    accessor_id: str,
    name: str | None,
    type: str | None,
    policy: tuple[str, ...],
    role_id: tuple[str, ...],
    role_name: tuple[str, ...],
    output: OutputFormat,
) -> None:
    """Change a token. What is not named stays; its secret and its expiry always stay."""
    path = f"/v1/acl/token/{quoted(accessor_id)}"
    found = client.get(path)
    links = _links(role_id, role_name)
    body = {
        "AccessorID": found["AccessorID"],
        "Name": found["Name"] if name is None else name,
        "Type": found["Type"] if type is None else type,
        "Policies": list(policy) or found["Policies"],
        "Roles": links or found["Roles"],
        "Global": found["Global"],
    }
    changed = client.put(path, body)
    if not output.printed(changed):
        print_token(changed)


@token.command("delete")
@click.argument("accessor_id")
@connected
def delete(client: ApiClient, accessor_id: str) -> None:
    """Delete a token; it is refused everywhere from now on."""
    client.delete(f"/v1/acl/token/{quoted(accessor_id)}")
    click.echo(f"Token {accessor_id} successfully deleted")
