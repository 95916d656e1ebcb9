"""`orchgit version`."""

from __future__ import annotations

import click

from orchgit import __version__
from orchgit.cli.command import cli_command


@cli_command("version", context_settings={"ignore_unknown_options": True})
@click.argument("ignored", nargs=-1, type=click.UNPROCESSED)
def version(ignored: tuple[str, ...]) -> None:
    """The version of this program; `orchgit agent-info` has that of the server."""
    if ignored:
        names = " ".join(repr(each) for each in ignored)
        click.echo(f"Warning: {names} ignored: this command takes no such argument", err=True)
    click.echo(f"orchgit v{__version__}")
