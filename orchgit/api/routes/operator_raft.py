"""The members of the log, and how an operator changes them."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routing import endpoint
from orchgit.errors import InvalidInputError, RefusedError
from orchgit.model.server import ServerRecord
from orchgit.services.cluster.membership import find_member, remove_server, transfer_leadership


async def configuration(call: ApiCall) -> Response:
    state = call.context.state
    with call.context.snapshot() as snapshot:
        records = {one.address: one for one in snapshot.servers.all()}
    servers = []
    for member in state.cluster.members:
        record = records.get(member.address, ServerRecord(member.address))
        leads = member.address == state.cluster.leader_address
        servers.append({**_identity(record), "Leader": leads, "Voter": member.voter})
    return call.answer({"Index": 0, "Servers": servers})


def _identity(record: ServerRecord) -> dict[str, Any]:
    """Returns the member's id and name; a member without a record is known by its address."""
    name = f"{record.name}.{record.region}" if record.name else "(unknown)"
    return {
        "ID": record.id or record.address,
        "Node": name,
        "Address": record.address,
        "RPCAddress": record.rpc_address,
        "RaftProtocol": "3",
    }


def _named(call: ApiCall) -> str:
    """Returns the raft address of the member that `address` or `id` names."""
    address, server_id = call.query.get("address", ""), call.query.get("id", "")
    if bool(address) == bool(server_id):
        raise InvalidInputError("Must specify either ?id with the server's ID or ?address")
    return find_member(call.context, address=address, server_id=server_id)


async def remove_peer(call: ApiCall) -> Response:
    if not call.query.get("id") and not call.query.get("address"):
        raise InvalidInputError("Must specify the peer's ID to remove")
    await remove_server(call.context, _named(call))
    return call.empty()


async def transfer(call: ApiCall) -> Response:
    try:
        address = _named(call)
    except RefusedError as error:
        raise InvalidInputError(str(error)) from error
    with call.context.snapshot() as snapshot:
        records = {one.address: one for one in snapshot.servers.all()}
    before = call.context.state.cluster.address
    await transfer_leadership(call.context, address)
    ends = (records.get(one, ServerRecord(one)) for one in (before, address))
    from_, to = ({"Address": one.address, "ID": one.id, "Name": one.name} for one in ends)
    return call.answer({"From": from_, "To": to, "Noop": before == address, "Err": None})


ENDPOINTS = [
    endpoint("/v1/operator/raft/configuration", get=configuration),
    endpoint("/v1/operator/raft/peer", delete=remove_peer),
    endpoint("/v1/operator/raft/transfer-leadership", put=transfer),
]
