"""Migrations, and that every table has the columns its struct is spread over."""

from __future__ import annotations

import sqlite3

import pytest

from orchgit.errors import InvariantError
from orchgit.state import schema
from orchgit.state.body_table import BodyTable
from orchgit.state.tables.applied_jobs import APPLIED_JOBS
from orchgit.state.tables.deployments import DEPLOYMENTS
from orchgit.state.tables.evaluations import EVALUATIONS
from orchgit.state.tables.git_refs import GIT_REFS
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
        *(APPLIED_JOBS, CLAIMS, DEPLOYMENTS, EVALUATIONS, GIT_REFS, HOST_VOLUMES, NAMESPACES),
        *(NODES, NODE_POOLS, ROLLOUTS, ROOT_KEYS, SERVERS, SOURCES, VARIABLES),
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
