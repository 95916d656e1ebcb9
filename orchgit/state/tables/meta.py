"""Facts about the whole state, by name."""

from __future__ import annotations

from typing import cast

from orchgit.state.tables.base import TableReads

_APPLIED_INDEX = "SELECT value FROM meta WHERE key = 'applied_index'"
_VALUE = "SELECT value FROM meta WHERE key = ?"


class MetaReads(TableReads):
    def cluster_id(self) -> str | None:
        """Returns None until the first leader has named the cluster."""
        return self._text("cluster_id") or None

    def cluster_key_check(self) -> str:
        """Returns what `ServerRecord.cluster_key_check` of each server must be; empty until the
        first leader has set it."""
        return self._text("cluster_key_check")

    def log_id(self) -> str:
        """Returns the id of the log that this state comes from, empty until the first leader has
        named the cluster.

        Two clusters never have the same, even where one was made from the other's backup.
        """
        return self._text("log_id")

    def applied_index(self) -> int:
        """Returns the index of the state. Every snapshot reads it, so it takes no detour."""
        row = self._connection.execute(_APPLIED_INDEX).fetchone()
        return cast(int, row[0]) if row else 0

    def index_offset(self) -> int:
        """Returns by how much the state is ahead of the log since a snapshot was restored.

        Restored objects bring their indexes with them, and none may be newer than the state.
        """
        return self._number(_VALUE, ("index_offset",))

    def log_index(self) -> int:
        """Returns the index of the log entry that was applied last."""
        return self.applied_index() - self.index_offset()

    def restored_index(self) -> int:
        """Returns the index at which a restored snapshot last replaced the state; 0: never."""
        return self._number(_VALUE, ("restored_index",))

    def restore_in_progress(self) -> str | None:
        """Returns the id of the snapshot that is being uploaded, or None."""
        return self._text("restoring") or None

    def _text(self, key: str) -> str:
        row = self._connection.execute(_VALUE, (key,)).fetchone()
        return str(row[0]) if row else ""


class MetaWrites(MetaReads):
    def set(self, key: str, value: str | int | bytes) -> None:
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def delete(self, key: str) -> None:
        self._connection.execute("DELETE FROM meta WHERE key = ?", (key,))
