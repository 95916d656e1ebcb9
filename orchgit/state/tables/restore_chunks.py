"""The pieces of a snapshot that is being uploaded to replace the state."""

from __future__ import annotations

from collections.abc import Iterator

from orchgit.state.tables.base import TableReads


class RestoreChunks(TableReads):
    """Only log entries that restore a snapshot read and write them."""

    def count(self) -> int:
        return self._number("SELECT count(*) FROM restore_chunks")

    def all(self) -> Iterator[bytes]:
        """Yields the pieces in their order."""
        for (data,) in self._connection.execute("SELECT data FROM restore_chunks ORDER BY seq"):
            yield data

    def put(self, seq: int, data: bytes) -> None:
        self._connection.execute("INSERT INTO restore_chunks VALUES (?, ?)", (seq, data))

    def delete_all(self) -> None:
        self._connection.execute("DELETE FROM restore_chunks")
