"""`orchgit operator gossip keyring`: keys of a gossip protocol, which servers here do not have."""

from __future__ import annotations

import base64
import os

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected
from orchgit.cli.printing.output import plain, table

_KEY_BYTES = 32


@cli_group("gossip")
def gossip() -> None:
    """Keys of a gossip protocol. Servers of orchgit have none: TLS protects what they say."""


@gossip.group("keyring")
def keyring() -> None:
    """Keys of a gossip protocol."""


@keyring.command("generate", ignores_extra=True, context_settings={"ignore_unknown_options": True})
def generate() -> None:
    """Make a key."""
    click.echo(base64.b64encode(os.urandom(_KEY_BYTES)).decode())


@keyring.command("list")
@connected
def list_(client: ApiClient) -> None:
    """The keys that are installed."""
    found = client.get("/v1/agent/keyring/list")["Keys"]
    rows = ((plain(key), count) for key, count in sorted(found.items()))
    table(("Key", "Servers"), rows, empty="No keys")


@keyring.command("install")
@click.argument("key")
@connected
def install(client: ApiClient, key: str) -> None:
    """Add a key."""
    client.put("/v1/agent/keyring/install", {"Key": key})
    click.echo("The key is installed.")


@keyring.command("use")
@click.argument("key")
@connected
def use(client: ApiClient, key: str) -> None:
    """Seal messages with this key from now on."""
    client.put("/v1/agent/keyring/use", {"Key": key})
    click.echo("The key is in use.")


@keyring.command("remove")
@click.argument("key")
@connected
def remove(client: ApiClient, key: str) -> None:
    """Take a key away."""
    client.put("/v1/agent/keyring/remove", {"Key": key})
    click.echo("The key is removed.")
