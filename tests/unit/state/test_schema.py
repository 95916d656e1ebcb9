"""Migrations, and that every table has the columns its struct is spread over."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys

import pytest
from sqlite_utils import Database

from orchgit.errors import InvariantError
from orchgit.state import schema
from orchgit.state.body_table import BodyTable
from orchgit.state.tables.applied_jobs import APPLIED_JOBS
from orchgit.state.tables.deployments import DEPLOYMENTS
from orchgit.state.tables.evaluations import EVALUATIONS
from orchgit.state.tables.git_refs import GIT_REFS
from orchgit.state.tables.held_versions import HELD_VERSIONS
from orchgit.state.tables.host_volumes import HOST_VOLUMES
from orchgit.state.tables.namespaces import NAMESPACES
from orchgit.state.tables.node_pools import NODE_POOLS
from orchgit.state.tables.nodes import NODES
from orchgit.state.tables.rollouts import ROLLOUTS
from orchgit.state.tables.root_keys import ROOT_KEYS
from orchgit.state.tables.servers import SERVERS
from orchgit.state.tables.sources import SOURCES
from orchgit.state.tables.variables import VARIABLES
from orchgit.state.tables.volume_claims import CLAIMS
from orchgit.state.upgrade import migrate


@pytest.fixture
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    return connection


def columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def sql_of(database: sqlite3.Connection) -> list[tuple[str, str, str]]:
    return database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY rowid").fetchall()


def version_of(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def database_of_version(version: int) -> sqlite3.Connection:
    """A database as the version of orchgit that knew so many migrations made it."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for number, script in enumerate(schema.MIGRATIONS[:version], start=1):
        connection.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")
    return connection


def test_schema_of_released_databases_is_unchanged() -> None:
    released = database_of_version(9)
    digest = hashlib.sha256(repr(sql_of(released)).encode()).hexdigest()
    assert digest[:16] == "e61e092d555bef2c"


def test_migrating_again_changes_nothing(database: sqlite3.Connection) -> None:
    before = sql_of(database)
    migrate(database)
    assert sql_of(database) == before
    assert version_of(database) == len(schema.MIGRATIONS)


@pytest.mark.parametrize("version", range(1, len(schema.MIGRATIONS)))
def test_upgraded_database_has_the_schema_of_a_new_one(
    database: sqlite3.Connection, version: int
) -> None:
    upgraded = database_of_version(version)
    migrate(upgraded)
    assert sql_of(upgraded) == sql_of(database)
    assert version_of(upgraded) == len(schema.MIGRATIONS)


def test_upgrade_keeps_the_rows() -> None:
    connection = database_of_version(5)
    connection.execute("INSERT INTO rollouts VALUES ('r', 'demo', 'healthy', 'c', 3, 4, x'80')")
    migrate(connection)
    assert connection.execute("SELECT * FROM rollouts").fetchall() == [
        ("r", "demo", "healthy", "c", 3, 4, b"\x80", 0)
    ]


@pytest.mark.parametrize("version", [0, len(schema.MIGRATIONS)])
def test_migration_by_a_function_gets_the_database(version: int) -> None:
    def widen(database: Database) -> None:
        database.table("servers").transform(types={"id": bytes})

    connection = database_of_version(version)
    migrate(connection, (*schema.MIGRATIONS, widen))
    types = {row[1]: row[2] for row in connection.execute("PRAGMA table_info(servers)")}
    assert types["id"] == "BLOB"
    assert version_of(connection) == len(schema.MIGRATIONS) + 1


def test_failed_migration_leaves_the_version_before(database: sqlite3.Connection) -> None:
    broken = (*schema.MIGRATIONS, "CREATE TABLE extra (a); CREATE TABLE extra (b)")
    with pytest.raises(sqlite3.OperationalError):
        migrate(database, broken)
    assert not database.in_transaction
    assert version_of(database) == len(schema.MIGRATIONS)
    assert not columns(database, "extra")


def test_opening_without_a_migration_imports_no_sqlite_utils() -> None:
    code = (
        "import sqlite3, sys; from orchgit.state.upgrade import migrate; "
        "database = sqlite3.connect(':memory:', isolation_level=None); "
        "migrate(database); migrate(database); "
        "sys.exit('sqlite_utils' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "table",
    [
        *(APPLIED_JOBS, CLAIMS, DEPLOYMENTS, EVALUATIONS, GIT_REFS, HELD_VERSIONS),
        *(
            HOST_VOLUMES,
            NAMESPACES,
            NODES,
            NODE_POOLS,
            ROLLOUTS,
            ROOT_KEYS,
            SERVERS,
            SOURCES,
            VARIABLES,
        ),
    ],
    ids=lambda table: table.name,
)
def test_table_has_exactly_the_columns_of_its_struct(
    database: sqlite3.Connection, table: BodyTable[object]
) -> None:
    assert columns(database, table.name) == {*table.columns, "body"}


def test_newer_schema_is_refused(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA user_version = 99")
    with pytest.raises(InvariantError, match="version 99"):
        migrate(database)


def test_every_watched_name_is_a_table(database: sqlite3.Connection) -> None:
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    assert set(schema.TABLES) <= tables
