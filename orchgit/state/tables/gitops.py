"""Sources of job files, and rollouts of their commits."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.rollout import TERMINAL_ROLLOUT_STATUSES, Rollout
from orchgit.model.source import Source
from orchgit.state.body_table import BodyTable, conditions
from orchgit.state.tables.base import Reads, Writes

SOURCES = BodyTable(
    "sources",
    Source,
    "name create_index modify_index",
)
ROLLOUTS = BodyTable(
    "rollouts",
    Rollout,
    "id source status commit_id=commit.id create_index modify_index",
)

_TERMINAL = tuple(sorted(TERMINAL_ROLLOUT_STATUSES))
_NEWEST_FIRST = "create_index DESC, id"


class GitopsReads(Reads):
    def source(self, name: str) -> Source | None:
        return SOURCES.get(self.connection, name)

    def sources(self) -> list[Source]:
        return SOURCES.find(self.connection)

    def rollout(self, rollout_id: str) -> Rollout | None:
        return ROLLOUTS.get(self.connection, rollout_id)

    def rollouts(
        self, source: str | None = None, limit: int | None = None, commit_id: str | None = None
    ) -> list[Rollout]:
        """Newest first."""
        where, values = conditions(source=source, commit_id=commit_id)
        order = f"{_NEWEST_FIRST} LIMIT {int(limit)}" if limit is not None else _NEWEST_FIRST
        return ROLLOUTS.find(self.connection, where, values, order)

    def active_rollouts(self) -> list[Rollout]:
        """Those whose end is not known yet, oldest first."""
        where = f"status NOT IN ({', '.join('?' * len(_TERMINAL))})"
        return ROLLOUTS.find(self.connection, where, _TERMINAL, "create_index, id")


class GitopsWrites(GitopsReads, Writes):
    def put_source(self, source: Source) -> None:
        SOURCES.put(self.connection, [source])
        self._changed("sources", [source.name])

    def delete_source(self, name: str) -> None:
        SOURCES.delete(self.connection, [name])
        self._changed("sources", [name])

    def put_rollout(self, rollout: Rollout) -> None:
        ROLLOUTS.put(self.connection, [rollout])
        self._changed("rollouts", [rollout.id])

    def delete_rollouts(self, ids: Sequence[str]) -> None:
        ROLLOUTS.delete(self.connection, ids)
        self._changed("rollouts", ids)
