"""Deployments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from orchgit.model.deployment import ACTIVE_DEPLOYMENT_STATUSES, Deployment
from orchgit.state.body_table import BodyTable, both, conditions, starting_with
from orchgit.state.changes import job_key
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

_ACTIVE = tuple(sorted(ACTIVE_DEPLOYMENT_STATUSES))

DEPLOYMENTS = BodyTable(
    "deployments",
    Deployment,
    "id namespace job_id job_version job_create_index status create_index modify_index",
)


class DeploymentReads(TableReads):
    def get(self, deployment_id: str) -> Deployment | None:
        return DEPLOYMENTS.get(self._connection, deployment_id)

    def all(self, namespace: str | None = None, prefix: str = "") -> list[Deployment]:
        """`prefix` of their ids."""
        where, values = both(conditions(namespace=namespace), starting_with("id", prefix))
        return DEPLOYMENTS.find(self._connection, where, values)

    def of_job(self, namespace: str, job_id: str) -> list[Deployment]:
        where = "namespace = ? AND job_id = ?"
        return DEPLOYMENTS.find(self._connection, where, (namespace, job_id))

    def of_version(self, namespace: str, job_id: str, version: int) -> list[Deployment]:
        where = "namespace = ? AND job_id = ? AND job_version = ?"
        return DEPLOYMENTS.find(self._connection, where, (namespace, job_id, version))

    def latest_of_job(self, namespace: str, job_id: str) -> Deployment | None:
        """Returns the newest one of the registered job, not of a purged job of the same id."""
        where = """namespace = ?1 AND job_id = ?2 AND create_index >= coalesce(
            (SELECT create_index FROM jobs WHERE namespace = ?1 AND id = ?2), 0)"""
        order = "create_index DESC, id LIMIT 1"
        found = DEPLOYMENTS.find(self._connection, where, (namespace, job_id), order)
        return found[0] if found else None

    def active_ids(self) -> list[str]:
        where = f"status IN ({', '.join('?' * len(_ACTIVE))})"
        sql = f"SELECT id FROM deployments WHERE {where} ORDER BY id"  # noqa: S608
        return [cast(str, id_) for (id_,) in self._rows(sql, _ACTIVE)]


class DeploymentWrites(DeploymentReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, deployment: Deployment) -> None:
        """The caller sets the indexes."""
        DEPLOYMENTS.put(self._connection, [deployment])
        self._entry.changed("deployments", [deployment.id])
        job = job_key(deployment.namespace, deployment.job_id)
        self._entry.changed("deployments_by_job", [job])

    def delete_all(self, ids: Sequence[str]) -> None:
        DEPLOYMENTS.delete(self._connection, ids)
        self._entry.changed("deployments", ids)
