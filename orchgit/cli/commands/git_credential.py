"""`orchgit git-credential`: gives git the token of the command line, for the built-in remote."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import click

from orchgit.cli.command import cli_command

DEFAULT_ADDRESS = "http://127.0.0.1:4646"
_MAX_INPUT = 1 << 16


@cli_command("git-credential")
@click.argument("operation")
def git_credential(operation: str) -> None:
    """Answer git's question for a login with ORCHGIT_TOKEN.

    git calls this itself, after

        git config --global credential.https://10.0.0.1:4646.helper '!orchgit git-credential'

    OPERATION is get, store or erase; only get does anything. The token is given to the servers of
    ORCHGIT_ADDR (or NOMAD_ADDR) and to no other host.
    """
    if operation != "get":
        return
    lines = sys.stdin.buffer.read(_MAX_INPUT).decode(errors="replace").splitlines()
    asked = dict(line.split("=", 1) for line in lines if "=" in line)
    addresses = os.environ.get("ORCHGIT_ADDR") or os.environ.get("NOMAD_ADDR") or DEFAULT_ADDRESS
    token = os.environ.get("ORCHGIT_TOKEN") or os.environ.get("NOMAD_TOKEN") or ""
    for line in credential_for(asked, addresses.split(","), token):
        click.echo(line)


def credential_for(asked: Mapping[str, str], addresses: Iterable[str], token: str) -> list[str]:
    """Returns the lines of git's protocol that answer `asked`; none where the token is not for that
    host."""
    known = {_origin(address.strip()) for address in addresses}
    if not token or _origin(f"{asked.get('protocol')}://{asked.get('host')}") not in known:
        return []
    return ["username=orchgit", f"password={token}"]


def _origin(address: str) -> tuple[str, str]:
    """Returns the scheme and host:port; an address without a scheme is http."""
    parts = urlsplit(address if "://" in address else f"http://{address}")
    return parts.scheme.lower(), parts.netloc.lower()
