"""`orchgit operator client-state`: what an agent keeps on disk, without the agent."""

from __future__ import annotations

import json
from pathlib import Path

import click

from orchgit.cli.command import cli_command
from orchgit.cli.commands.operator_snapshot_content import table_rows
from orchgit.errors import InvalidInputError


@cli_command("client-state")
@click.argument("data_dir")
def client_state(data_dir: str) -> None:
    """Print as JSON what the agent of DATA_DIR keeps: allocations, tasks, volumes.

    It only reads, so the agent may run.
    """
    places = (Path(data_dir) / "client" / "state.db", Path(data_dir) / "state.db")
    path = next((each for each in places if each.is_file()), None)
    if path is None:
        raise InvalidInputError(
            f"cannot read {data_dir}: there is no client/state.db below it; name the agent's "
            "data directory"
        )
    click.echo(json.dumps(dict(table_rows(path)), indent=4, default=str))
