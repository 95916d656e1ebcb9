"""`orchgit login`: a token for what an identity provider says of a person or program."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.acl_text import print_token
from orchgit.cli.printing.output_format import OutputFormat

CALLBACK_ADDRESS = "127.0.0.1:4649"
CALLBACK_PATH = "/oidc/callback"


@cli_command("login")
@option("method", help="The auth method; without it, the default one of the cluster.")
@option(
    "oidc-callback-addr",
    default=CALLBACK_ADDRESS,
    help=f"Where the browser comes back to [{CALLBACK_ADDRESS}].",
)
@option("login-token", help="The signed token to log in with, for methods of type JWT.")
@formatted
@connected
def login(
    client: ApiClient,
    method: str | None,
    oidc_callback_addr: str,
    login_token: str | None,
    output: OutputFormat,
) -> None:
    """Log in, and print the token that commands use as -token or NOMAD_TOKEN."""
    found = _method(client, method)
    if found["Type"] == "JWT":
        if not login_token:
            raise click.UsageError("cannot log in by a JWT method: give -login-token")
        body = {"AuthMethodName": found["Name"], "LoginToken": login_token}
        token = client.put("/v1/acl/login", body)
    else:
        token = _through_browser(client, found["Name"], oidc_callback_addr)
    if not output.printed(token):
        click.echo(f"Successfully logged in via {found['Type']} and {found['Name']}\n")
        print_token(token)


def _method(client: ApiClient, name: str | None) -> dict[str, Any]:
    methods = client.get("/v1/acl/auth-methods")
    wanted = [each for each in methods if (each["Name"] == name if name else each["Default"])]
    if len(wanted) == 1:
        return dict(wanted[0])
    names = ", ".join(each["Name"] for each in methods) or "there are none"
    if name:
        raise ApiError(f"cannot log in: no auth method is called {name!r}; {names}")
    reason = "several are the default" if wanted else "none is the default"
    raise ApiError(f"cannot tell which auth method to use: {reason}; give -method ({names})")


def _through_browser(client: ApiClient, method: str, callback_addr: str) -> Any:
    from orchgit.cli.client.login_callback import LoginCallback

    nonce = secrets.token_urlsafe(24)
    with LoginCallback(callback_addr, CALLBACK_PATH) as callback:
        begin = {
            "AuthMethodName": method,
            "RedirectURI": callback.uri,
            "ClientNonce": nonce,
        }
        url = client.put("/v1/acl/oidc/auth-url", begin)["AuthURL"]
        click.echo(
            "Log in with your browser, at this address if it does not open by itself:", err=True
        )
        click.echo(f"\n    {url}\n", err=True)
        click.launch(url)
        code = callback.wait(parse_qs(urlsplit(url).query).get("state", [""])[0])
    complete = {**begin, "State": code.state, "Code": code.code}
    return client.put("/v1/acl/oidc/complete-auth", complete)
