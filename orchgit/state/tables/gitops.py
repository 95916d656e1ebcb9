"""Sources of job files, rollouts of their commits, and the refs of built-in repositories.

A change of a repository's refs is noted under its source's name.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.rollout import TERMINAL_ROLLOUT_STATUSES, Rollout
from orchgit.model.source import AppliedJob, GitRef, Source
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
    "id source status commit_id=commit.id was_applied create_index modify_index",
)
GIT_REFS = BodyTable(
    "git_refs",
    GitRef,
    "id source name object_id create_index modify_index",
)

APPLIED_JOBS = BodyTable(
    "applied_jobs",
    AppliedJob,
    "id namespace job_id source content_id spec_id create_index modify_index",
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

    def applied_commits(self, source: str, since_index: int = 0) -> set[str]:
        """The commits of the source's rollouts that were carried out, as far as they are kept."""
        sql = """SELECT DISTINCT commit_id FROM rollouts
            WHERE source = ? AND was_applied AND create_index >= ?"""
        return {str(commit_id) for (commit_id,) in self._rows(sql, (source, since_index))}

    def git_ref(self, source: str, name: str) -> GitRef | None:
        return GIT_REFS.get(self.connection, f"{source}:{name}")

    def git_refs(self, source: str) -> dict[str, str]:
        """Every ref of a built-in repository with the object it points at, sorted by name."""
        sql = "SELECT name, object_id FROM git_refs WHERE source = ? ORDER BY name"
        return {str(name): str(object_id) for name, object_id in self._rows(sql, (source,))}

    def applied_job(self, namespace: str, job_id: str) -> AppliedJob | None:
        return APPLIED_JOBS.get(self.connection, f"{namespace}/{job_id}")

    def applied_jobs(self, source: str) -> list[AppliedJob]:
        """Jobs that run once, as this source last applied them; '': those of removed sources."""
        return APPLIED_JOBS.find(self.connection, "source = ?", (source,))

    def repositories(self) -> list[str]:
        """The names of built-in repositories that hold something, followed or not."""
        rows = self._rows("SELECT DISTINCT source FROM git_refs ORDER BY source")
        return [str(source) for (source,) in rows]


class GitopsWrites(GitopsReads, Writes):
    def put_source(self, source: Source) -> None:
        SOURCES.put(self.connection, [source])
        self._changed("sources", [source.name])

    def delete_source(self, name: str) -> None:
        SOURCES.delete(self.connection, [name])
        self._changed("sources", [name])

    def put_applied_jobs(self, jobs: Sequence[AppliedJob]) -> None:
        APPLIED_JOBS.put(self.connection, jobs)
        self._changed("applied_jobs", [job.id for job in jobs])

    def delete_applied_jobs(self, keys: Sequence[tuple[str, str]]) -> None:
        """(namespace, job id) of each."""
        ids = [f"{namespace}/{job_id}" for namespace, job_id in keys]
        APPLIED_JOBS.delete(self.connection, ids)
        self._changed("applied_jobs", ids)

    def put_rollout(self, rollout: Rollout) -> None:
        ROLLOUTS.put(self.connection, [rollout])
        self._changed("rollouts", [rollout.id])

    def delete_rollouts(self, ids: Sequence[str]) -> None:
        ROLLOUTS.delete(self.connection, ids)
        self._changed("rollouts", ids)

    def put_git_ref(self, ref: GitRef) -> None:
        GIT_REFS.put(self.connection, [ref])
        self._changed("git_refs", [ref.source])

    def delete_git_ref(self, source: str, name: str) -> None:
        GIT_REFS.delete(self.connection, [f"{source}:{name}"])
        self._changed("git_refs", [source])
