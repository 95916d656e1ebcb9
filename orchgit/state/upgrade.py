"""Upgrades the schema of a database that an earlier version wrote; the door of sqlite-utils."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from sqlite_utils import Database

from orchgit.state.schema import Migration


def upgrade(connection: sqlite3.Connection, migrations: Sequence[Migration], version: int) -> None:
    """Applies the migrations after `version`, each in a transaction with its number.

    A migration that fails is rolled back and leaves the database at the version before.
    """
    database = Database(connection, recursive_triggers=False, execute_plugins=False)
    for number, migration in enumerate(migrations[version:], start=version + 1):
        with database.atomic():
            if isinstance(migration, str):
                database.executescript(migration)
            else:
                migration(database)
            database.execute(f"PRAGMA user_version = {number}")
