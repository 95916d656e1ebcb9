"""Node pools and what is in them."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routes.jobs_read import job_token
from orchgit.api.routes.nodes import list_nodes_of
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.api.shapes.node_pools import shown_pool
from orchgit.api.shapes.stubs import job_stub
from orchgit.errors import InvalidInputError, RefusedError
from orchgit.model.node import NodePool
from orchgit.services.nodes.pools import delete_node_pool, put_node_pool
from orchgit.state.snapshot import Snapshot


async def list_pools(call: ApiCall) -> Response:
    page, prefix = PageRequest.of(call), call.query.get("prefix", "")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        found = [
            each
            for each in snapshot.node_pools.all()
            if each.name.startswith(prefix) and call.rights.allows_node_pool(each.name, "read")
        ]
        chosen, headers = page.apply(found, lambda each: each.name)
        return [shown_pool(each) for each in chosen], headers

    return await answer_list(call, ("node_pools",), read)


async def read_pool(call: ApiCall) -> Response:
    return await answer_object(
        call,
        ("node_pools",),
        lambda snapshot: snapshot.node_pools.get(call.path["name"]),
        "node pool not found",
        shown_pool,
    )


async def put_pool(call: ApiCall) -> Response:
    data = await call.body()
    pool = nomad_json.decode(data, NodePool)
    if nomad_json.get(nomad_json.decode_tree(data), "SchedulerConfiguration") is not None:
        raise RefusedError('Feature "Node Pools Governance" is unlicensed')
    named = call.path.get("name")
    if named and pool.name and named != pool.name:
        raise InvalidInputError("Node pool name does not match the path")
    pool.name = pool.name or named or ""
    return call.empty(index=await put_node_pool(call.context, pool))


async def delete_pool(call: ApiCall) -> Response:
    return call.empty(
        index=await delete_node_pool(call.context, call.path["name"], call.api.server.region)
    )


async def jobs(call: ApiCall) -> Response:
    page = PageRequest.of(call)

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        pool = call.path["name"]
        known = call.visible(snapshot.jobs.all(call.namespaces))
        found = [each for each in known if each.node_pool == pool]
        chosen, headers = page.apply(found, job_token, namespaced=True)
        stubs = [job_stub(job, snapshot.job_summaries.get(job.namespace, job.id)) for job in chosen]
        return stubs, headers

    return await answer_list(call, ("jobs", "allocations"), read)


async def nodes(call: ApiCall) -> Response:
    return await list_nodes_of(call, call.path["name"])


ENDPOINTS = [
    endpoint("/v1/node/pools", get=list_pools, put=put_pool),
    endpoint("/v1/node/pool/{name}", get=read_pool, put=put_pool, delete=delete_pool),
    endpoint("/v1/node/pool/{name}/jobs", get=jobs),
    endpoint("/v1/node/pool/{name}/nodes", get=nodes),
]
