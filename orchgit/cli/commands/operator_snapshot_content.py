"""`orchgit operator snapshot redact` and `state`: what is in a snapshot, offline."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import click

from orchgit.cli.command import cli_command
from orchgit.cli.options import option, unconnected
from orchgit.errors import InvalidInputError

_SECRET_TABLES = (
    *("variables", "root_keys", "acl_tokens", "acl_one_time_tokens", "acl_auth_methods"),
)
"""What they hold is sealed or hashed; a snapshot for somebody else should not have it at all."""
_SECRET_KEYS = {"nodes": "SecretID", "csi_volumes": "Secrets"}
"""Table -> the key of its rows that holds a secret in plain."""


def redact_into(archive: IO[bytes], out: IO[bytes]) -> int:
    """Writes the archive again, marked, without secrets and without the git repositories.

    Returns how many secrets were left out. Raises InvalidInputError for a file that is no snapshot.
    """
    from orchgit.replication.archive import read_archive, write_archive

    archive.seek(0)
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "state.db"
        meta = read_archive(archive, state)
        left_out = 0
        with closing(sqlite3.connect(state)) as connection:
            for name in _SECRET_TABLES:
                try:
                    deleted = connection.execute(f"DELETE FROM {name}")  # noqa: S608 - known names
                except sqlite3.OperationalError:
                    continue  # of an earlier version, which has no such table
                left_out += deleted.rowcount
            left_out += sum(_blanked(connection, *each) for each in _SECRET_KEYS.items())
            connection.commit()
            connection.execute("VACUUM")
        meta.origin.redacted = True
        write_archive(out, meta, state)
    return left_out


def _blanked(connection: sqlite3.Connection, table: str, key: str) -> int:
    """Takes a key out of the rows of a table; returns how many rows had it."""
    import msgspec

    try:
        rows = connection.execute(f"SELECT rowid, body FROM {table}").fetchall()  # noqa: S608
    except sqlite3.OperationalError:
        return 0  # of an earlier version, which has no such table
    changed = []
    for row_id, body in rows:
        found = msgspec.msgpack.decode(body)
        if found.pop(key, None):
            changed.append((msgspec.msgpack.encode(found), row_id))
    connection.executemany(f"UPDATE {table} SET body = ? WHERE rowid = ?", changed)  # noqa: S608
    return len(changed)


@cli_command("redact")
@click.argument("file")
@unconnected
def redact(file: str) -> None:
    """Take variables, tokens, keys and secrets out of the snapshot FILE, to hand it on.

    The git repositories are left out too. Such a snapshot can be looked into, not restored.
    """
    path = Path(file)
    try:
        with (
            path.open("rb") as archive,
            tempfile.NamedTemporaryFile(dir=path.absolute().parent, delete=False) as out,
        ):
            try:
                left_out = redact_into(archive, out)
            except BaseException:
                os.unlink(out.name)
                raise
        os.replace(out.name, path)
    except OSError as error:
        raise InvalidInputError(f"cannot redact {file}: {error.strerror}") from error
    click.echo(f"{left_out} variables, tokens, keys and secrets are taken out of {file}.")


@cli_command("state")
@click.argument("file")
@option("filter", dest="tables", help="Only these tables, separated by commas.")
def state(file: str, tables: str | None) -> None:
    """Print the rows of the snapshot FILE as JSON, table by table."""
    from orchgit.replication.archive import read_archive

    wanted = set(tables.split(",")) if tables else None
    try:
        with open(file, "rb") as archive, tempfile.TemporaryDirectory() as directory:
            database = Path(directory) / "state.db"
            read_archive(archive, database)
            found = dict(table_rows(database, wanted))
    except OSError as error:
        raise InvalidInputError(f"cannot read {file}: {error.strerror}") from error
    click.echo(json.dumps(found, indent=4, default=str))


def table_rows(
    database: Path, wanted: set[str] | None = None
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields each table's name and rows; raises InvalidInputError for what is no database."""
    import msgspec

    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (name,) in names.fetchall():
                if name.startswith("sqlite_") or (wanted is not None and name not in wanted):
                    continue
                cursor = connection.execute(f'SELECT * FROM "{name}"')  # noqa: S608 - its own name
                columns = [column[0] for column in cursor.description]
                yield (
                    name,
                    [
                        {
                            column: _readable(value, msgspec)
                            for column, value in zip(columns, row, strict=True)
                        }
                        for row in cursor
                    ],
                )
    except sqlite3.Error as error:
        raise InvalidInputError(f"cannot read {database}: {error}") from error


def _readable(value: Any, msgspec: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return msgspec.msgpack.decode(value)
    except (msgspec.DecodeError, ValueError):
        return value.hex()
