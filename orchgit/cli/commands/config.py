"""`orchgit config validate`: checks configuration files without starting an agent."""

from __future__ import annotations

import click

from orchgit.cli.command import cli_group


@cli_group("config")
def config() -> None:
    """Check the configuration of agents."""


@config.command("validate")
@click.argument("paths", nargs=-1)
@click.pass_context
def validate(ctx: click.Context, paths: tuple[str, ...]) -> None:
    """Check configuration files, and the .hcl and .json files of directories, joined in order.

    The verdict is Nomad's. Every mistake is told with its file and line; a WARNING names what an
    agent of orchgit could not use, and keys without effect here.
    """
    from orchgit.configuration.validation import validate as validated

    if not paths:
        click.echo("Must specify at least one config file or directory", err=True)
        ctx.exit(1)
    result = validated(paths)
    for line in result.output:
        click.echo(line)
    for line in result.errors:
        click.echo(line, err=True)
    ctx.exit(0 if result.valid else 1)
