"""Brings a database to the newest schema; the door of sqlite-utils."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from orchgit.errors import InvariantError
from orchgit.state.schema import MIGRATIONS, Migration


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Brings the database to the newest schema; each migration is one transaction.

    A migration that fails is rolled back and leaves the database at the version before. Raises
    InvariantError for a database that a newer version wrote.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(migrations):
        raise InvariantError(
            f"cannot open the state: its schema is version {version}, and this server knows up to "
            f"{len(migrations)}; run the version that wrote it, or a newer one"
        )
    if version == len(migrations):
        return
    # A new database waits for SQL only: sqlite-utils takes longer to import than a server may
    # take for all of its start.
    scripts = [each for each in migrations if isinstance(each, str)]
    if version == 0 and len(scripts) == len(migrations):
        whole = "".join(scripts)
        connection.executescript(f"BEGIN; {whole}; PRAGMA user_version = {len(scripts)}; COMMIT;")
        return
    from sqlite_utils import Database

    database = Database(connection, recursive_triggers=False, execute_plugins=False)
    for number, migration in enumerate(migrations[version:], start=version + 1):
        with database.atomic():
            if isinstance(migration, str):
                database.executescript(migration)
            else:
                migration(database)
            database.execute(f"PRAGMA user_version = {number}")
