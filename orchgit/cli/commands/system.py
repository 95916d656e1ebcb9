"""`orchgit system`: collect what is over now, and put summaries right."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected


@cli_group("system")
def system() -> None:
    """Garbage collection."""


@system.command("gc")
@connected
def gc(client: ApiClient) -> None:
    """Garbage-collect finished jobs, evaluations, allocations, deployments, and dead nodes."""
    client.put("/v1/system/gc")
    click.echo("Garbage collection has begun.")


@system.group("reconcile")
def reconcile() -> None:
    """Compute again what follows from other records."""


@reconcile.command("summaries", ignores_extra=True)
@connected
def summaries(client: ApiClient) -> None:
    """Compute the summaries of all jobs again."""
    client.put("/v1/system/reconcile/summaries")
