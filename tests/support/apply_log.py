"""Applies a log to a fresh store: `python -m tests.support.apply_log LOG DIRECTORY` prints a digest
of every row of every table, in the order in which they lie there."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import msgspec

from orchgit import logs
from orchgit.replication.events import Effects
from orchgit.replication.machine import apply_entry
from orchgit.state.store import Store


def main(log: Path, directory: Path) -> str:
    store = Store.open(directory / "state.db")
    txn = store.begin()
    entries = msgspec.msgpack.decode(log.read_bytes(), type=list[bytes])
    digest = hashlib.sha256()
    for index, payload in enumerate(entries, start=1):
        effects = Effects()
        result = apply_entry(txn, index, payload, effects)
        digest.update(repr((result, effects.notes)).encode())
    txn.commit(len(entries))
    with store.snapshot() as snapshot:
        tables = snapshot.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in tables.fetchall():
            for row in snapshot.connection.execute(f"SELECT * FROM {name}"):
                digest.update(repr((name, row)).encode())
    store.close()
    return digest.hexdigest()


if __name__ == "__main__":
    logs.configure(logs.LogSettings("WARNING"))
    print(main(Path(sys.argv[1]), Path(sys.argv[2])))
