"""Rollouts of the commits of sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from orchgit.model.rollout import (
    OPEN_ROLLOUT_STATUSES,
    TERMINAL_ROLLOUT_STATUSES,
    WAITING_ROLLOUT_STATUSES,
    Rollout,
)
from orchgit.state.body_table import BodyTable, conditions
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

_TERMINAL = tuple(sorted(TERMINAL_ROLLOUT_STATUSES))
_OPEN = tuple(sorted(OPEN_ROLLOUT_STATUSES))
_WAITING = tuple(sorted(WAITING_ROLLOUT_STATUSES))
_NEWEST_FIRST = "create_index DESC, id"
# A plus sign keeps SQLite from reading all rollouts of a source in their order: few have not ended.

ROLLOUTS = BodyTable(
    "rollouts",
    Rollout,
    "id source status commit_id=commit.id was_applied create_index modify_index",
)


class RolloutPlace(NamedTuple):
    """Where a rollout stands."""

    status: str
    was_applied: bool
    create_index: int
    modify_index: int

    @property
    def is_waiting(self) -> bool:
        """Whether the commit is recorded and not applied yet: a gate is closed."""
        return self.status in WAITING_ROLLOUT_STATUSES and not self.was_applied


class RolloutReads(TableReads):
    def get(self, rollout_id: str) -> Rollout | None:
        return ROLLOUTS.get(self._connection, rollout_id)

    def place(self, rollout_id: str) -> RolloutPlace | None:
        """Returns what the columns say of a rollout: its jobs are not read."""
        sql = "SELECT status, was_applied, create_index, modify_index FROM rollouts WHERE id = ?"
        rows = cast(list[tuple[str, int, int, int]], self._rows(sql, (rollout_id,)))
        return next((RolloutPlace(row[0], bool(row[1]), *row[2:]) for row in rows), None)

    def all(
        self, source: str | None = None, limit: int | None = None, commit_id: str | None = None
    ) -> list[Rollout]:
        """Returns the newest first."""
        where, values = conditions(source=source, commit_id=commit_id)
        order = f"{_NEWEST_FIRST} LIMIT {int(limit)}" if limit is not None else _NEWEST_FIRST
        return ROLLOUTS.find(self._connection, where, values, order)

    def active(self, source: str | None = None) -> list[Rollout]:
        """Returns the rollouts that have not ended, of one source or of all, oldest first."""
        where = f"status IN ({', '.join('?' * len(_OPEN))})"
        values: list[str] = list(_OPEN)
        if source is not None:
            where, values = f"source = ? AND {where}", [source, *values]
        return ROLLOUTS.find(self._connection, where, values, "+create_index, id")

    def active_of_source(self, source: str) -> list[tuple[str, int]]:
        """Returns (id, modify index) of the source's rollouts that have not ended, the newest
        first."""
        marks = ", ".join("?" * len(_OPEN))
        sql = f"""SELECT id, modify_index FROM rollouts
            WHERE source = ? AND status IN ({marks}) ORDER BY +create_index DESC, id"""  # noqa: S608
        return cast(list[tuple[str, int]], self._rows(sql, (source, *_OPEN)))

    def newest_change_of(self, source: str) -> int:
        """Returns the newest modify index of the source's rollouts; 0 if it has none."""
        return self._number("SELECT max(modify_index) FROM rollouts WHERE source = ?", (source,))

    def counts(self) -> dict[tuple[str, str], int]:
        """Returns how many rollouts there are by (source, status)."""
        rows = self._rows("SELECT source, status, count(*) FROM rollouts GROUP BY source, status")
        return {(str(source), str(status)): cast(int, count) for source, status, count in rows}

    def applied_after(self, rollout: Rollout) -> list[Rollout]:
        """Returns the applied rollouts of the same source that came later, oldest first."""
        where = "source = ? AND was_applied AND create_index > ?"
        values = (rollout.source, rollout.create_index)
        return ROLLOUTS.find(self._connection, where, values, "create_index, id")

    def waiting(self, source: str | None = None) -> list[Rollout]:
        """Returns the rollouts that wait at their gates, of one source or of all, newest first."""
        where = f"status IN ({', '.join('?' * len(_WAITING))}) AND NOT was_applied"
        values: list[str] = list(_WAITING)
        if source is not None:
            where, values = f"+source = ? AND {where}", [source, *values]
        return ROLLOUTS.find(self._connection, where, values, _NEWEST_FIRST)

    def applied_commits(self, source: str, limit: int, since_index: int = 0) -> set[str]:
        """Returns the ids of the commits of the source's newest `limit` applied rollouts that are
        stored."""
        sql = """SELECT commit_id FROM rollouts WHERE source = ? AND create_index >= ?
            AND was_applied ORDER BY create_index DESC LIMIT ?"""
        return {str(commit_id) for (commit_id,) in self._rows(sql, (source, since_index, limit))}

    def was_applied(self, source: str, commit_id: str) -> bool:
        """Returns whether a stored rollout of the source applied the commit."""
        sql = "SELECT count(*) FROM rollouts WHERE source = ? AND commit_id = ? AND was_applied"
        return self._number(sql, (source, commit_id)) > 0

    def ended_beyond(self, source: str, newest: int) -> list[str]:
        """Returns the ids of the source's rollouts that have ended and are older than its newest
        so many."""
        marks = ", ".join("?" * len(_TERMINAL))
        sql = f"""SELECT id FROM (SELECT id, status FROM rollouts WHERE source = ?
            ORDER BY create_index DESC, id LIMIT -1 OFFSET ?) WHERE status IN ({marks})"""  # noqa: S608
        return [str(rollout_id) for (rollout_id,) in self._rows(sql, (source, newest, *_TERMINAL))]


class RolloutWrites(RolloutReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, rollout: Rollout) -> None:
        ROLLOUTS.put(self._connection, [rollout])
        self._entry.changed("rollouts", [rollout.id])

    def delete_all(self, ids: Sequence[str]) -> None:
        ROLLOUTS.delete(self._connection, ids)
        self._entry.changed("rollouts", ids)
