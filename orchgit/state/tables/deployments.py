"""Deployments."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.deployment import ACTIVE_DEPLOYMENT_STATUSES, Deployment
from orchgit.state.body_table import BodyTable, both, conditions, starting_with
from orchgit.state.changes import job_key
from orchgit.state.tables.base import Reads, Writes

DEPLOYMENTS = BodyTable(
    "deployments",
    Deployment,
    "id namespace job_id job_version job_create_index status create_index modify_index",
)

_ACTIVE = tuple(sorted(ACTIVE_DEPLOYMENT_STATUSES))


class DeploymentReads(Reads):
    def deployment(self, deployment_id: str) -> Deployment | None:
        return DEPLOYMENTS.get(self.connection, deployment_id)

    def deployments(self, namespace: str | None = None, prefix: str = "") -> list[Deployment]:
        where, values = both(conditions(namespace=namespace), starting_with("id", prefix))
        return DEPLOYMENTS.find(self.connection, where, values)

    def deployments_by_job(self, namespace: str, job_id: str) -> list[Deployment]:
        where = "namespace = ? AND job_id = ?"
        return DEPLOYMENTS.find(self.connection, where, (namespace, job_id))

    def latest_deployment(self, namespace: str, job_id: str) -> Deployment | None:
        """The newest one of the job as it is registered now (not of a purged namesake)."""
        where = """namespace = ?1 AND job_id = ?2 AND create_index >= coalesce(
            (SELECT create_index FROM jobs WHERE namespace = ?1 AND id = ?2), 0)"""
        order = "create_index DESC, id LIMIT 1"
        found = DEPLOYMENTS.find(self.connection, where, (namespace, job_id), order)
        return found[0] if found else None

    def active_deployments(self) -> list[Deployment]:
        where = f"status IN ({', '.join('?' * len(_ACTIVE))})"
        return DEPLOYMENTS.find(self.connection, where, _ACTIVE)


class DeploymentWrites(DeploymentReads, Writes):
    def put_deployment(self, deployment: Deployment) -> None:
        """Its indexes are the caller's."""
        DEPLOYMENTS.put(self.connection, [deployment])
        self._changed("deployments", [deployment.id])
        self._changed("deployments_by_job", [job_key(deployment.namespace, deployment.job_id)])

    def delete_deployments(self, ids: Sequence[str]) -> None:
        DEPLOYMENTS.delete(self.connection, ids)
        self._changed("deployments", ids)
