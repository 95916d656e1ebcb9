"""Rules that depend on the cluster: namespaces, node pools, its configuration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jobspec.rules.connect import check_proxy_ports, check_upstreams
from jobspec.rules.findings import Findings
from orchgit.go_quote import quote
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of the cluster that the rules use. None: not known, so not checked."""

    namespaces: frozenset[str] | None = None
    node_pools: frozenset[str] | None = None
    max_priority: int = 100
    job_max_count: int = 0
    """The most allocations that one job may have; 0: no limit."""
    memory_oversubscription: bool = False
    vault_clusters: frozenset[str] = frozenset()
    numa: bool = False
    """Whether the cluster supports `numa` blocks."""


def check_before(findings: Findings, job: Job, cluster: ClusterFacts) -> None:
    """What is checked before the job's own rules."""
    tasks = [task for group in job.task_groups for task in group.tasks]
    for name in sorted({str(t.vault.get("Cluster") or "default") for t in tasks if t.vault}):
        findings.check(
            name not in cluster.vault_clusters,
            f"Vault {quote(name)} not enabled but used in the job",
        )
    _consul(findings, job)
    for index, group in enumerate(job.task_groups):
        _partitions(findings, group, index)
        _sidecar_network(findings, group, index)
        _exposed_checks(findings, group, index)
        check_upstreams(findings, group, index)
        check_proxy_ports(findings, group, index)
    if job.multiregion is not None and job.multiregion.get("Regions"):
        findings.add("Multiregion jobs are unlicensed.", "Multiregion")
    if cluster.namespaces is not None and job.namespace not in cluster.namespaces:
        findings.add(
            f"job {quote(job.id)} is in nonexistent namespace {quote(job.namespace)}",
            "Namespace",
        )
    if cluster.node_pools is not None and job.node_pool not in cluster.node_pools:
        findings.add(
            f"job {quote(job.id)} is in nonexistent node pool {quote(job.node_pool)}", "NodePool"
        )
    if not 1 <= job.priority <= cluster.max_priority:
        findings.add(f"job priority must be between [1, {cluster.max_priority}]", "Priority")


def check_after(findings: Findings, job: Job, cluster: ClusterFacts) -> None:
    _total_count(findings, job, cluster.job_max_count)
    tasks = [task for group in job.task_groups for task in group.tasks]
    findings.check(
        any((task.schedule or {}).get("Cron") for task in tasks),
        "task schedules requires Nomad Enterprise",
    )
    if cluster.numa:
        return
    for group_index, group in enumerate(job.task_groups):
        for task_index, task in enumerate(group.tasks):
            numa = task.resources.numa
            findings.check(
                numa is not None and numa.affinity != "none",
                "numa scheduling requires Nomad Enterprise",
                "TaskGroups",
                group_index,
                "Tasks",
                task_index,
                "Resources",
            )


def _total_count(findings: Findings, job: Job, limit: int) -> None:
    total = sum(group.count for group in job.task_groups)
    findings.check(
        0 < limit < total,
        f"total count was greater than configured job_max_count: {total} > {limit}",
        "TaskGroups",
    )


def _consul(findings: Findings, job: Job) -> None:
    """Reported once, for the first block that names a cluster."""
    for index, group in enumerate(job.task_groups):
        for consul, place in _consul_blocks(group):
            if consul is not None and consul.get("Cluster") not in (None, "", "default"):
                problem = "non-default Consul cluster requires Nomad Enterprise"
                findings.add(problem, "TaskGroups", index, *place)
                return


def _consul_blocks(
    group: TaskGroup,
) -> Iterable[tuple[dict[str, Any] | None, tuple[str | int, ...]]]:
    yield group.consul, ("Consul",)
    for at, task in enumerate(group.tasks):
        yield task.consul, ("Tasks", at, "Consul")
    for at, service in enumerate(group.services or ()):
        if service.provider == "consul":
            yield {"Cluster": service.cluster}, ("Services", at)


def _partitions(findings: Findings, group: TaskGroup, index: int) -> None:
    of_group = (group.consul or {}).get("Partition")
    for at, task in enumerate(group.tasks):
        of_task = (task.consul or {}).get("Partition")
        if of_group and of_task and of_group != of_task:
            findings.add(
                f"task.consul.partition {quote(str(of_task))} must match group.consul.partition "
                f"{quote(str(of_group))} if both are set",
                "TaskGroups",
                index,
                "Tasks",
                at,
            )


def _exposed_checks(findings: Findings, group: TaskGroup, index: int) -> None:
    exposed = any(check.expose for each in group.services or () for check in each.checks or ())
    networks = group.networks or []
    if exposed and not any(network.mode == "bridge" for network in networks):
        findings.add(
            f"group {quote(group.name)} must use bridge network for exposing service check(s)",
            "TaskGroups",
            index,
        )


def _sidecar_network(findings: Findings, group: TaskGroup, index: int) -> None:
    """A sidecar's proxy needs the group's one network, in bridge mode."""
    for at, service in enumerate(group.services or ()):
        connect = service.connect or {}
        if connect.get("SidecarService") is None or connect.get("Native"):
            continue
        networks = group.networks or []
        place = ("TaskGroups", index, "Services", at)
        if len(networks) != 1:
            findings.add(
                "connect sidecar: must have exactly one network for Consul Connect: group "
                f"{quote(group.name)} has {len(networks)} networks",
                *place,
            )
        elif networks[0].mode not in ("bridge",) and not networks[0].mode.startswith("cni/"):
            findings.add(
                f"connect sidecar: requires bridge network, found "
                f"{quote(networks[0].mode)} in group {quote(group.name)}",
                *place,
            )
