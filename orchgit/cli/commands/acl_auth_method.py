"""`orchgit acl auth-method`: create, list, info, update, delete."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.input_text import text_or_file
from orchgit.cli.options import connected, formatted, length, option, option_field, options_of
from orchgit.cli.printing.acl_text import print_auth_method
from orchgit.cli.printing.output import plain, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("auth-method")
def auth_method() -> None:
    """How people and programs log in."""


@dataclass(frozen=True, slots=True)
class MethodOptions:
    type: str | None = option_field("type", help="OIDC or JWT.")
    max_token_ttl: str | None = option_field(
        "max-token-ttl",
        type=length,
        help="How long the tokens of its logins are valid, such as 8h.",
    )
    token_locality: str | None = option_field("token-locality", help="local or global.")
    token_name_format: str | None = option_field(
        "token-name-format", help="How its tokens are called: ${auth_method_name}, ${value.user}."
    )
    default: bool = option_field(
        "default", is_flag=True, help="Log in by it unless -method is given."
    )
    config: str | None = option_field(
        "config", help="Its settings as JSON, @FILE, or - for standard input."
    )

    def body(self, name: str) -> dict[str, Any]:
        """Returns what is set, for a request."""
        given = {
            "Type": self.type.upper() if self.type else None,
            "MaxTokenTTL": self.max_token_ttl,
            "TokenLocality": self.token_locality,
            "TokenNameFormat": self.token_name_format,
            "Config": _config(self.config),
        }
        named = {key: value for key, value in given.items() if value is not None}
        return {"Name": name, **named}


def _config(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text_or_file(text))
    except ValueError as error:
        raise click.UsageError(f"cannot read -config as JSON: {error}") from error


@auth_method.command("create")
@option("name", help="The name of the method.")
@options_of(MethodOptions)
@formatted
@connected
def create(
    client: ApiClient, name: str | None, options: MethodOptions, output: OutputFormat
) -> None:
    """Create an auth method."""
    needed = {
        "ACL auth method name must be specified using the -name flag": name,
        "ACL auth method type must be specified using the -type flag": options.type,
        "Token locality must be specified using the -token-locality flag": options.token_locality,
        "Max token TTL must be set": options.max_token_ttl,
        "Must provide ACL auth method config in JSON format": options.config,
    }
    for missing, value in needed.items():
        if not value:
            raise click.UsageError(missing)
    body = {**options.body(name or ""), "Default": options.default}
    made = client.put("/v1/acl/auth-method", body)
    if not output.printed(made):
        print_auth_method(made)


@auth_method.command("list")
@formatted
@connected
def list_(client: ApiClient, output: OutputFormat) -> None:
    """All auth methods."""
    found = client.get("/v1/acl/auth-methods")
    if not output.printed(found):
        table(
            ("Name", "Type", "Default"),
            ((plain(each["Name"]), each["Type"], str(each["Default"]).lower()) for each in found),
            empty="No ACL auth methods found",
        )


@auth_method.command("info")
@click.argument("name")
@formatted
@connected
def info(client: ApiClient, name: str, output: OutputFormat) -> None:
    """One auth method; its secrets are not shown."""
    found = client.get(f"/v1/acl/auth-method/{quoted(name)}")
    if not output.printed(found):
        print_auth_method(found)


@auth_method.command("update")
@click.argument("name")
@options_of(MethodOptions)
@formatted
@connected
def update(client: ApiClient, name: str, options: MethodOptions, output: OutputFormat) -> None:
    """Change an auth method. What is not named stays; -config replaces the whole config."""
    path = f"/v1/acl/auth-method/{quoted(name)}"
    found = client.get(path)
    changed = client.put(
        path, {**options.body(name), "Default": options.default or found["Default"]}
    )
    if not output.printed(changed):
        print_auth_method(changed)


@auth_method.command("delete")
@click.argument("name")
@connected
def delete(client: ApiClient, name: str) -> None:
    """Delete an auth method; tokens of its logins stay until they expire."""
    client.delete(f"/v1/acl/auth-method/{quoted(name)}")
    click.echo(f"ACL auth method {name} successfully deleted")
