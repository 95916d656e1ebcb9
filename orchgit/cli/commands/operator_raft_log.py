"""`orchgit operator raft info`, `logs`, `state`: a server's log and state on disk, offline."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchgit.cli.command import cli_command
from orchgit.cli.options import formatted, no_effect_option, option
from orchgit.cli.printing.output import pairs
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.errors import InvalidInputError

if TYPE_CHECKING:
    from orchgit.raft_log.journal import Journal


@contextmanager
def _journal(path: str) -> Iterator[Journal]:
    """Opens a copy of the log below PATH: opening one may cut a torn end, and a server may run."""
    from orchgit.raft_log.journal import Journal

    places = (Path(path), Path(path) / "raft", Path(path) / "server" / "raft")
    found = next((each for each in places if list(each.glob("*.segment"))), None)
    if found is None:
        raise InvalidInputError(
            f"cannot find a log below {path}: name the data directory of a server"
        )
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "raft"
        shutil.copytree(found, copy)
        journal = Journal(copy)
        try:
            yield journal
        finally:
            journal.close()


def _entries(journal: Journal, last_index: int | None = None) -> Iterator[dict[str, Any]]:
    """Yields each entry of the log: its index, term, kind and content."""
    import msgspec

    from orchgit.replication.commands.codec import decode

    last = min(journal.last_index, last_index or journal.last_index)
    for index in range(journal.first_index, last + 1):
        record = journal.record(index)
        kind, content = record.payload[:1].decode("latin-1"), record.payload[1:]
        entry: dict[str, Any] = {"Index": record.index, "Term": record.term}
        try:
            command = decode(content)
            entry |= {"Command": type(command).__name__, "Content": msgspec.to_builtins(command)}
        except (msgspec.DecodeError, ValueError):
            entry |= {"Command": f"kind {kind!r}", "Content": f"{len(content)} bytes"}
        yield entry


@cli_command("info")
@click.argument("path")
@formatted
def info(path: str, output: OutputFormat) -> None:
    """Show the first and last index of a server's log, and its vote. A server may run."""
    with _journal(path) as journal:
        found = {
            "FirstIndex": journal.first_index,
            "LastIndex": journal.last_index,
            "Term": journal.vote.term,
            "VotedFor": journal.vote.voted_for or "",
        }
    if not output.printed(found):
        pairs(
            (
                ("First Index", found["FirstIndex"]),
                ("Last Index", found["LastIndex"]),
                ("Term", found["Term"]),
                ("Voted For", found["VotedFor"] or "<none>"),
            )
        )


@cli_command("logs")
@click.argument("path")
@option("pretty", is_flag=True, help="With line breaks.")
def logs(path: str, pretty: bool) -> None:
    """Print each entry of a server's log as JSON. A server may run."""
    with _journal(path) as journal:
        for entry in _entries(journal):
            click.echo(json.dumps(entry, indent=2 if pretty else None, default=_shown))


@cli_command("state")
@click.argument("path")
@option("last-index", type=int, help="Only entries up to this index.")
def state(path: str, last_index: int | None) -> None:
    """Count the entries of a server's log by what they do. A server may run.

    `operator snapshot save` and `inspect` tell the state that they lead to.
    """
    with _journal(path) as journal:
        counts = Counter(entry["Command"] for entry in _entries(journal, last_index))
    click.echo(json.dumps(dict(sorted(counts.items())), indent=4))


@cli_command("migrate-backend")
@click.argument("path")
@no_effect_option("yes", "nothing is asked", is_flag=True)
def migrate_backend(path: str) -> None:
    """Change how the log is stored; servers of orchgit know one way, so there is nothing to do."""
    with _journal(path) as journal:
        click.echo(f"The log up to {journal.last_index} is stored as segments: nothing to change.")


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
