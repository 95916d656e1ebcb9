"""Nodes: lists, one, and what operators do to them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest, in_order_of_creation
from orchgit.api.routes.allocations import with_job
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json
from orchgit.api.shapes.stubs import node_stub, shown_node, signing_key_id
from orchgit.model.node import DrainStrategy, Node
from orchgit.services.nodes.operations import (
    drain_node,
    evaluate_node,
    purge_node,
    set_node_eligibility,
)
from orchgit.services.nodes.registration import NodeUpdateResult
from orchgit.state.snapshot import Snapshot

_DRAIN_SPEC = go_json.Fields(
    "api.DrainSpec",
    {"Deadline": go_json.whole("time.Duration"), "IgnoreSystemJobs": go_json.flag},
)
_DRAIN = go_json.Fields(
    "api.NodeUpdateDrainRequest",
    {
        "NodeID": go_json.text,
        "DrainSpec": go_json.struct(_DRAIN_SPEC),
        "MarkEligible": go_json.flag,
        "Meta": go_json.text_map,
    },
)
_ELIGIBILITY = go_json.Fields(
    "structs.NodeUpdateEligibilityRequest",
    {"NodeID": go_json.text, "Eligibility": go_json.text},
)


async def list_nodes(call: ApiCall) -> Response:
    return await list_nodes_of(call, None)


async def list_nodes_of(call: ApiCall, pool: str | None) -> Response:
    page, prefix = PageRequest.of(call), call.id_prefix("node lookup failed: ")
    resources, with_os = call.flag("resources"), call.flag("os")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        found = [
            each for each in snapshot.nodes.all(prefix) if pool in (None, "all", each.node_pool)
        ]
        chosen, headers = page.apply(found, lambda each: each.id, shown_node)
        return [node_stub(each, resources, with_os) for each in chosen], headers

    return await answer_list(call, ("nodes",), read, depends_on=("nodes",))


async def read_node(call: ApiCall) -> Response:
    node_id = call.object_id("node_id", "node")

    def read(snapshot: Snapshot) -> Node | None:
        found = snapshot.nodes.get(node_id)
        if found is None:
            return None
        key_id = signing_key_id(snapshot.root_keys.all(), found.create_index)
        return replace(shown_node(found), identity_signing_key_id=key_id)

    return await answer_object(
        call, ("nodes",), read, "node not found", key=node_id, is_one_row=True
    )


async def allocations(call: ApiCall) -> Response:
    """Returns the allocations in full, with their jobs, as agents of Nomad read them."""

    def read(snapshot: Snapshot) -> Any:
        known = call.visible(snapshot.allocations.of_node(call.path["node_id"]))
        found = in_order_of_creation(known)
        root_keys = snapshot.root_keys.all()
        return [with_job(snapshot, each, root_keys) for each in found]

    return await answer_list(call, ("allocations",), read)


async def drain(call: ApiCall) -> Response:
    body = await call.fields(_DRAIN)
    spec = body.get("DrainSpec")
    strategy = None
    if spec is not None:
        strategy = DrainStrategy(
            deadline_ns=spec.get("Deadline", 0),
            ignore_system_jobs=spec.get("IgnoreSystemJobs", False),
        )
    change = await drain_node(
        call.context,
        call.path["node_id"],
        strategy,
        body.get("MarkEligible", False),
        body.get("Meta"),
    )
    return _changed(call, change)


async def eligibility(call: ApiCall) -> Response:
    wanted = (await call.fields(_ELIGIBILITY)).get("Eligibility", "")
    done = await set_node_eligibility(call.context, call.path["node_id"], wanted)
    return _changed(call, done, node_index=0)


async def evaluate(call: ApiCall) -> Response:
    done = await evaluate_node(call.context, call.path["node_id"])
    return _changed(call, done, full=True, node_index=0)


async def purge(call: ApiCall) -> Response:
    return _changed(call, await purge_node(call.context, call.path["node_id"]), full=True)


def _changed(
    call: ApiCall, done: NodeUpdateResult, full: bool = False, node_index: int | None = None
) -> Response:
    value: dict[str, Any] = {
        "NodeModifyIndex": done.index if node_index is None else node_index,
        "EvalIDs": list(done.eval_ids) or None,
        "EvalCreateIndex": done.index if done.eval_ids else 0,
        "Index": done.index,
    }
    if full:
        with call.context.snapshot() as snapshot:
            nodes = snapshot.nodes.all()
        node = next((each for each in nodes if each.id == call.path["node_id"]), None)
        value.update(
            HeartbeatTTL=0,
            Features=0,
            LeaderRPCAddr=call.api.server.leader_address(),
            NumNodes=len(nodes),
            Servers=[
                {
                    "RPCAdvertiseAddr": address,
                    "RPCMajorVersion": 0,
                    "RPCMinorVersion": 0,
                    "Datacenter": call.api.server.datacenter,
                }
                for address in call.api.server.peer_addresses()
            ],
            SchedulingEligibility=node.scheduling_eligibility if node else "",
            SignedIdentity=None,
            LastContact=0,
            KnownLeader=False,
            NextToken="",
        )
    return call.answer(value, headers={"X-Nomad-Index": str(done.index)})


ENDPOINTS = [
    endpoint("/v1/nodes", get=list_nodes),
    endpoint("/v1/node/{node_id}", get=read_node),
    endpoint("/v1/node/{node_id}/allocations", get=allocations),
    endpoint("/v1/node/{node_id}/drain", put=drain),
    endpoint("/v1/node/{node_id}/eligibility", put=eligibility),
    endpoint("/v1/node/{node_id}/evaluate", put=evaluate),
    endpoint("/v1/node/{node_id}/purge", put=purge),
]
