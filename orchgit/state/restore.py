"""Replacing the state by that of an uploaded snapshot."""

from __future__ import annotations

from pathlib import Path

from orchgit.state import schema
from orchgit.state.transaction import WriteTxn

_OF_THIS_CLUSTER = frozenset(("meta", "table_indexes", "servers", "restore_chunks"))
"""Tables whose rows stay: they describe the servers and the log that run now."""


def directory_of(txn: WriteTxn) -> Path:
    """Returns the directory of the database, where there is room for another one."""
    (_, _, path) = txn.connection.execute("PRAGMA database_list").fetchone()
    return Path(path).parent


def begin(txn: WriteTxn, restore_id: str) -> None:
    """Begin to take in a snapshot; the pieces of an earlier attempt go."""
    drop(txn)
    txn.meta.set("restoring", restore_id)


def drop(txn: WriteTxn) -> None:
    """Forget the snapshot that is being taken in, if there is one."""
    txn.restore_chunks.delete_all()
    txn.meta.delete("restoring")


def replace_state(txn: WriteTxn, path: Path) -> None:
    """Replace the state by that in the database at `path`, which has this version's schema.

    The index of the state becomes later than that of any object in it, because clients that wait
    for a change, and evaluations that wait for an index, rely on indexes that only grow.
    """
    restored = txn.attach(path)
    sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' ORDER BY name"
    for (name,) in txn.connection.execute(sql).fetchall():
        if name not in _OF_THIS_CLUSTER:
            _replace_table(txn, name, restored)
    meta = dict(txn.connection.execute(f"SELECT key, value FROM {restored}.meta").fetchall())  # noqa: S608
    txn.move_index(max(txn.index, int(meta["applied_index"]) + 1))
    txn.meta.set("restored_index", txn.index)
    if "cluster_id" in meta:
        txn.meta.set("cluster_id", meta["cluster_id"])
    txn.note_replaced(name for name in schema.TABLES if name not in _OF_THIS_CLUSTER)


def _replace_table(txn: WriteTxn, name: str, restored: str) -> None:
    information = txn.connection.execute(f"PRAGMA main.table_info({name})").fetchall()
    columns = ", ".join(row[1] for row in information)
    txn.connection.execute(f"DELETE FROM main.{name}")  # noqa: S608 (a name of the schema)
    txn.connection.execute(
        f"INSERT INTO main.{name} ({columns}) SELECT {columns} FROM {restored}.{name}"  # noqa: S608
    )
