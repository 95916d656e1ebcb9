"""Migrations, and that every table has the columns its struct is spread over."""

from __future__ import annotations

import sqlite3

import pytest

from orchgit.errors import InvariantError
from orchgit.state import schema
from orchgit.state.body_table import BodyTable
from orchgit.state.tables.deployments import DEPLOYMENTS
from orchgit.state.tables.evaluations import EVALUATIONS
from orchgit.state.tables.gitops import ROLLOUTS, SOURCES
from orchgit.state.tables.nodes import NAMESPACES, NODE_POOLS, NODES
from orchgit.state.tables.variables import ROOT_KEYS, VARIABLES
from orchgit.state.tables.volumes import CLAIMS, HOST_VOLUMES


@pytest.fixture
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(connection)
    return connection


def columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def test_migrating_again_changes_nothing(database: sqlite3.Connection) -> None:
    before = database.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
    schema.migrate(database)
    assert database.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall() == before
    (version,) = database.execute("PRAGMA user_version").fetchone()
    assert version == len(schema.MIGRATIONS)


def test_a_failed_migration_leaves_the_version_before(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    broken = (*schema.MIGRATIONS, "CREATE TABLE extra (a); CREATE TABLE extra (b)")
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(connection)
    connection.execute("ROLLBACK")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    assert version == len(broken) - 1
    assert not columns(connection, "extra")


@pytest.mark.parametrize(
    "table",
    [
        *(DEPLOYMENTS, EVALUATIONS, ROLLOUTS, SOURCES, NAMESPACES, NODE_POOLS),
        *(NODES, CLAIMS, HOST_VOLUMES, VARIABLES, ROOT_KEYS),
    ],
    ids=lambda table: table.name,
)
def test_a_table_has_exactly_the_columns_of_its_struct(
    database: sqlite3.Connection, table: BodyTable[object]
) -> None:
    assert columns(database, table.name) == {*table.columns, "body"}


def test_a_newer_schema_is_refused(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA user_version = 99")
    with pytest.raises(InvariantError, match="version 99"):
        schema.migrate(database)


def test_every_watched_name_is_a_table(database: sqlite3.Connection) -> None:
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    assert set(schema.TABLES) <= tables
