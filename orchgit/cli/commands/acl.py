"""`orchgit acl`: bootstrap, and the groups of commands about access control objects."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.input_text import text_of_path
from orchgit.cli.options import connected, formatted
from orchgit.cli.printing.acl_text import print_token
from orchgit.cli.printing.output_format import OutputFormat

_GROUPS = {
    "auth-method": ("acl_auth_method", "auth_method", "How people and programs log in"),
    "binding-rule": ("acl_binding_rule", "binding_rule", "What a login gives"),
    "policy": ("acl_policy", "policy", "What tokens and roles may do"),
    "role": ("acl_role", "role", "Named sets of policies"),
    "token": ("acl_token", "token", "Who may do what: create, look at, change, delete"),
}


@cli_group("acl", lazy=_GROUPS)
def acl() -> None:
    """Access control: tokens, policies, roles, logins."""


@acl.command("bootstrap")
@click.argument("path", required=False)
@formatted
@connected
def bootstrap(client: ApiClient, path: str | None, output: OutputFormat) -> None:
    """Make the first management token of a cluster.

    PATH is a file with the secret to use, a UUID (`-`: standard input); without one the server
    makes a secret. Keep the token: nobody can show it again without another management token.
    """
    body = {"BootstrapSecret": text_of_path(path).strip()} if path is not None else {}
    made = client.put("/v1/acl/bootstrap", body)
    if not output.printed(made):
        print_token(made)
