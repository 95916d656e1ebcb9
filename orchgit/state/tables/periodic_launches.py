"""When each periodic job was last launched."""

from __future__ import annotations

from typing import cast

from orchgit.state.changes import job_key
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads


class PeriodicLaunchReads(TableReads):
    def get(self, namespace: str, job_id: str) -> int | None:
        """Returns the time of the last launch in Unix nanoseconds."""
        sql = "SELECT launch_time_ns FROM periodic_launches WHERE namespace = ? AND job_id = ?"
        row = self._connection.execute(sql, (namespace, job_id)).fetchone()
        return cast(int, row[0]) if row else None


class PeriodicLaunchWrites(PeriodicLaunchReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, namespace: str, job_id: str, launch_time_ns: int) -> None:
        self._connection.execute(
            """INSERT INTO periodic_launches VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
            launch_time_ns = excluded.launch_time_ns, modify_index = excluded.modify_index""",
            (namespace, job_id, launch_time_ns, self._entry.index, self._entry.index),
        )
        self._entry.changed("periodic_launches", [job_key(namespace, job_id)])

    def delete_of_job(self, namespace: str, job_id: str) -> None:
        sql = "DELETE FROM periodic_launches WHERE namespace = ? AND job_id = ?"
        self._connection.execute(sql, (namespace, job_id))
