"""A redacted snapshot holds no secret, says that it is redacted, and is never restored."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from orchgit.cli.commands.operator_snapshot_content import table_rows
from orchgit.cli.main import cli
from orchgit.errors import RefusedError
from orchgit.replication.archive import ArchiveMeta, Origin, read_archive, write_archive
from orchgit.state import schema
from orchgit.state.store import Store

SECRET = "a-secret-of-a-test"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot with a node and a volume that have secrets, and a root key."""
    Store.open(tmp_path / "live.db").close()
    node = msgspec.msgpack.encode({"ID": "n", "SecretID": SECRET})
    volume = msgspec.msgpack.encode({"ID": "v", "Secrets": {"password": SECRET}})
    live, state = tmp_path / "live.db", tmp_path / "state.db"
    with closing(sqlite3.connect(live)) as store, closing(sqlite3.connect(state)) as copy:
        store.execute(
            "INSERT INTO nodes VALUES ('n', 'n', 'dc1', 'default', '', '', 'ready', 'eligible',"
            " 0, 0, 0, 1, 1, ?)",
            [node],
        )
        store.execute("INSERT INTO csi_volumes VALUES ('v', 'default', 'p', 1, 1, ?)", [volume])
        store.commit()
        store.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    file = tmp_path / "backup.snap"
    origin = Origin(schema_version=len(schema.MIGRATIONS), build="9.9")
    with file.open("wb") as out:
        write_archive(out, ArchiveMeta(index=7, term=2, orchgit=origin), state)
    return file


def ran(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["operator", "snapshot", *arguments])
    return f"{done.output}{done.exception or ''}"


def test_redacted_snapshot_holds_no_secret(snapshot: Path, tmp_path: Path) -> None:
    assert "2 variables, tokens, keys and secrets are taken out" in ran("redact", str(snapshot))
    state = tmp_path / "redacted.db"
    with snapshot.open("rb") as file:
        read_archive(file, state)
    rows = dict(table_rows(state, {"nodes", "csi_volumes"}))
    assert [rows["nodes"][0]["body"], rows["csi_volumes"][0]["body"]] == [{"ID": "n"}, {"ID": "v"}]
    assert SECRET.encode() not in state.read_bytes()


def test_redacted_snapshot_is_not_sent_to_a_server(snapshot: Path) -> None:
    assert "Redacted     = no" in ran("inspect", str(snapshot))
    ran("redact", str(snapshot))
    assert "Redacted     = yes" in ran("inspect", str(snapshot))
    closed = ("-address", "http://127.0.0.1:1")
    said = ran("restore", *closed, "-yes", "-force", str(snapshot))
    assert "cannot restore a redacted snapshot" in said
    assert "saved without -redact" in said


def test_archive_that_is_marked_as_redacted_is_refused() -> None:
    ArchiveMeta(orchgit=Origin()).refuse_redacted()
    with pytest.raises(RefusedError, match="cannot restore a redacted snapshot"):
        ArchiveMeta(orchgit=Origin(redacted=True)).refuse_redacted()


def test_connection_options_of_a_command_without_a_server_are_warned_of(snapshot: Path) -> None:
    said = ran("redact", "-address", "http://127.0.0.1:1", "-tls-skip-verify", str(snapshot))
    assert "Warning: -address has no effect: this command asks no server" in said
    assert "Warning: -tls-skip-verify has no effect" in said
