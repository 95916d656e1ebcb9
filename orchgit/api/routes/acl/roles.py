"""Roles: list, read by id and by name, write, delete."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routes.acl.callers import own_roles
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.shapes import go_json
from orchgit.errors import InvalidInputError, NotAllowedError, RefusedError
from orchgit.model.acl import AclRole, PolicyLink
from orchgit.services.acl.roles import delete_role, put_role, with_known_policies
from orchgit.services.identifiers import uuid_prefix
from orchgit.state.snapshot import Snapshot

_TABLES = ("acl_roles", "acl_policies")
_NOT_FOUND = "ACL role not found"
_LINK = go_json.Fields("structs.ACLRolePolicyLink", {"Name": go_json.text})
_ROLE = go_json.Fields(
    "structs.ACLRole",
    {
        "ID": go_json.text,
        "Name": go_json.text,
        "Description": go_json.text,
        "Policies": go_json.structs(_LINK),
    },
)


async def list_roles(call: ApiCall) -> Response:
    """A caller without management rights sees those that its token has."""
    page, prefix = PageRequest.of(call), uuid_prefix(call.query.get("prefix", ""))

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        sees_all = call.rights.is_management
        own = () if sees_all else own_roles(call)
        if call.rights.workload is not None:
            raise RefusedError("acl token lookup failed: index error: UUID must be 36 characters")
        found = [each for each in snapshot.acl_roles.all(prefix) if sees_all or each.id in own]
        chosen, headers = page.apply(found, lambda role: role.id)
        return [with_known_policies(snapshot, role) for role in chosen], headers

    return await answer_list(call, _TABLES, read)


async def read_role(call: ApiCall) -> Response:
    role_id = _named(call, "id", "ID")
    return await _answer_role(call, lambda snapshot: snapshot.acl_roles.get(role_id))


async def read_role_by_name(call: ApiCall) -> Response:
    name = _named(call, "name", "name")
    return await _answer_role(call, lambda snapshot: snapshot.acl_roles.of_name(name))


async def _answer_role(call: ApiCall, find: Any) -> Response:
    def read(snapshot: Snapshot) -> AclRole | None:
        role = find(snapshot)
        if not call.rights.is_management and (role is None or role.id not in own_roles(call)):
            raise NotAllowedError("Permission denied")
        return None if role is None else with_known_policies(snapshot, role)

    return await answer_object(call, _TABLES, read, _NOT_FOUND)


async def write_role(call: ApiCall) -> Response:
    in_path = _named(call, "id", "ID") if "id" in call.path else ""
    body = go_json.decode_body(await call.body(), _ROLE)
    role_id = body.get("ID", "")
    if in_path and in_path != role_id:
        raise InvalidInputError("ACL role ID does not match request path")
    role = AclRole(
        id=role_id,
        name=body.get("Name", ""),
        description=body.get("Description", ""),
        policies=[PolicyLink(link.get("Name", "")) for link in body.get("Policies", ())],
    )
    stored = await put_role(call.services.acl, role)
    return call.answer(stored, index=stored.modify_index)


async def remove_role(call: ApiCall) -> Response:
    return call.empty(index=await delete_role(call.services.acl, _named(call, "id", "ID")))


def _named(call: ApiCall, parameter: str, what: str) -> str:
    """Returns a part of the path. Raises InvalidInputError for an empty one."""
    if not call.path[parameter]:
        raise InvalidInputError(f"missing ACL role {what}")
    return call.path[parameter]


ENDPOINTS = [
    acl_endpoint("/v1/acl/roles", get=list_roles),
    acl_endpoint("/v1/acl/role", put=write_role),
    acl_endpoint("/v1/acl/role/name/{name:path}", get=read_role_by_name),
    acl_endpoint("/v1/acl/role/{id:path}", get=read_role, put=write_role, delete=remove_role),
]
