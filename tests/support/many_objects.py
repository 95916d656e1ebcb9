"""A state of many objects of each kind, and requests of the API that look at many of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from orchgit.model.job import Job, ParameterizedJobConfig
from orchgit.model.node import Namespace, Node
from orchgit.model.operator import SchedulerConfig
from orchgit.model.plan import PlanResult
from orchgit.model.quota import QuotaSpec
from orchgit.model.resources import NetworkResource
from orchgit.model.service import Service
from orchgit.model.variable import StoredVariable
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocsFromClient
from orchgit.replication.commands.entry import Entry
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.replication.commands.settings import PutQuotas, SetSchedulerConfig, UpsertNamespaces
from orchgit.replication.commands.variables import UpsertVariable
from orchgit.services.context import UseCaseContext
from orchgit.state.snapshot import Snapshot
from tests.support.factories import (
    make_batch_job,
    make_deployment,
    make_evaluation,
    make_group,
    make_job,
    make_node,
    make_placements,
)

_AT_ONCE = 100
_PARENT, _BIG, _WIDE = "parent", "big", "wide"
_LISTS = """
jobs jobs/statuses evaluations evaluations/count allocations deployments nodes node/pools
node/pool/default/jobs node/pool/default/nodes services service/web-1 vars volumes?type=host
volumes?type=csi volumes/claims plugins namespaces namespace/default quotas quota-usages
metrics quota/usage/all scaling/policies agent/self agent/members status/leader
metrics?format=prometheus operator/upgrade-check/vault-workload-identity gitops/sources
gitops/drift gitops/rollouts gitops/authors openapi.json gitops/authors/big
operator/raft/configuration operator/autopilot/health operator/keyring/keys agent/schedulers
"""
_OF_JOB = """
summary allocations evaluations deployments deployment services actions versions submission scale
"""
_PAGED = ("jobs", "allocations", "evaluations", "deployments", "nodes", "services", "vars")


def _jobs(jobs: int, allocations: int) -> Iterator[Job]:
    """Yields the big job, then the others with equal shares of the allocations."""
    service = Service(provider="nomad", port_label="80", address_mode="auto")
    for number in range(jobs + 1):
        count = jobs if number == 0 else max(allocations // jobs, 1)
        named = replace(service, name=f"web-{number}", address="10.0.0.1")
        group = make_group(count=count, services=[named])
        yield make_job(id=f"job-{number}" if number else _BIG, task_groups=[group])


def _wide(groups: int, team: str) -> Job:
    named = [make_group(name=f"g-{number}", count=0) for number in range(groups)]
    return make_job(id=_WIDE, meta={"team": team}, task_groups=named)


def _plan(job: Job, nodes: list[Node], context: UseCaseContext) -> ApplyPlan:
    deployment, count = make_deployment(job), job.task_groups[0].count
    deployment.id = context.ids.new()
    evaluation = make_evaluation(job, id=context.ids.new(), status="complete")
    rows = make_placements(
        job,
        nodes,
        count,
        eval_id=evaluation.id,
        deployment_id=deployment.id,
        alloc_ids=[context.ids.new() for _ in range(count)],
    )
    return ApplyPlan(
        namespace=job.namespace,
        job_id=job.id,
        job_version=0,
        eval_id=evaluation.id,
        result=PlanResult(placements=[rows], deployment=deployment),
        evaluations=[evaluation],
    )


async def commit(context: UseCaseContext, entries: Iterable[Entry]) -> None:
    """Proposes the entries, some of them at a time."""
    waiting: list[Any] = []
    for entry in entries:
        waiting.append(context.propose(entry))
        if len(waiting) >= _AT_ONCE:
            await asyncio.gather(*waiting)
            waiting.clear()
    await asyncio.gather(*waiting)


async def fill(context: UseCaseContext, jobs: int, allocations: int, nodes: int) -> None:
    """Commits `jobs` jobs that share the allocations, with an evaluation, a deployment, a service
    and a variable each; a job of `jobs` allocations, one that was dispatched `jobs` times, and one
    of `jobs` groups in two versions."""
    await context.propose(SetSchedulerConfig(config=SchedulerConfig(pause_eval_broker=True)))
    await context.propose(PutQuotas(quotas=[QuotaSpec(name="all")]))
    quota = Namespace(name="default", quota="all")
    await context.propose(UpsertNamespaces(namespaces=[quota]))
    machines = [make_node(id=context.ids.new()) for _ in range(nodes)]
    for node in machines:
        node.node_resources.networks = [NetworkResource(mode="host", device="lo", ip="127.0.0.1")]
    await commit(context, (RegisterNode(node=node) for node in machines))
    made = list(_jobs(jobs, allocations))
    await commit(context, (RegisterJob(upsert=JobUpsert(job=job)) for job in made))
    parent = make_batch_job(id=_PARENT, parameterized_job=ParameterizedJobConfig())
    children = (
        make_batch_job(id=f"{_PARENT}/dispatch-{number}", parent_id=_PARENT, dispatched=True)
        for number in range(jobs)
    )
    made += [parent, *children]
    await commit(context, (RegisterJob(upsert=JobUpsert(job=job)) for job in made[jobs + 1 :]))
    for team in ("a", "b"):
        await context.propose(RegisterJob(upsert=JobUpsert(job=_wide(jobs, team))))
    updates: dict[str, list[AllocClientUpdate]] = {}

    def plans() -> Iterator[ApplyPlan]:
        for number, job in enumerate(made[: jobs + 1]):
            start = number * 7 % nodes
            plan = _plan(job, machines[start:] + machines[:start], context)
            for rows in plan.result.placements:
                for alloc_id, node_id in zip(rows.alloc_ids, rows.node_ids, strict=True):
                    updates.setdefault(node_id, []).append(AllocClientUpdate(alloc_id, "running"))
            yield plan

    await commit(context, plans())
    await commit(
        context,
        (UpdateAllocsFromClient(node_id=one, updates=found) for one, found in updates.items()),
    )
    with context.snapshot() as snapshot:
        key = snapshot.root_keys.active()
    assert key is not None
    variables = (
        StoredVariable(path=f"v/{number}", sealed=bytes(64), key_id=key.key_id)
        for number in range(jobs)
    )
    await commit(context, (UpsertVariable(variable=each) for each in variables))


def reads(snapshot: Snapshot) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    """Yields (method, path, body) of each read."""
    node = snapshot.nodes.all()[0].id
    allocation = snapshot.allocations.of_job("default", _BIG)[0]
    deployment = snapshot.deployments.latest_of_job("default", _BIG)
    assert deployment is not None
    for name in _OF_JOB.split():
        yield "GET", f"/v1/job/{_BIG}/{name}", None
    yield "GET", f"/v1/job/{_BIG}", None
    for name in ("", "/versions", "/versions?diffs=true", "/scale", "/summary"):
        yield "GET", f"/v1/job/{_WIDE}{name}", None
    yield "GET", f"/v1/job/{_PARENT}/summary", None
    for name in _LISTS.split():
        yield "GET", f"/v1/{name}", None
    for name in _PAGED:
        yield "GET", f"/v1/{name}?per_page=10", None
        yield "GET", f"/v1/{name}?filter=ModifyIndex%20!=%203", None
    yield "GET", f"/v1/node/{node}", None
    yield "GET", f"/v1/node/{node}/allocations", None
    yield "GET", f"/v1/evaluation/{allocation.eval_id}", None
    yield "GET", f"/v1/evaluation/{allocation.eval_id}/allocations", None
    yield "GET", f"/v1/allocation/{allocation.id}", None
    yield "GET", f"/v1/allocation/{allocation.id}/services", None
    yield "GET", f"/v1/deployment/{deployment.id}", None
    yield "GET", f"/v1/deployment/allocations/{deployment.id}", None
    for prefix in ("", "job", "zzz", "a"):
        yield "PUT", "/v1/search", {"Prefix": prefix, "Context": "all"}
    for text in ("job", "nowhere", "zz"):
        yield "PUT", "/v1/search/fuzzy", {"Text": text, "Context": "all"}
    named = [{"ID": _BIG}, *({"ID": f"job-{number}"} for number in range(1, 100))]
    yield "PUT", "/v1/jobs/statuses", {"Jobs": named}
    yield "GET", f"/v1/gitops/blame/{allocation.id}", None
    yield "GET", "/v1/operator/snapshot", None
    yield "PUT", "/v1/system/gc", None
