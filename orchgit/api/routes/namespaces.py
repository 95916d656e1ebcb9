"""Namespaces."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError, RefusedError
from orchgit.model.node import Namespace
from orchgit.services.jobs.admission import multiple_errors
from orchgit.services.namespaces import delete_namespace, put_namespace
from orchgit.state.snapshot import Snapshot

_NO_CAPABILITIES = dict.fromkeys(
    ("EnabledTaskDrivers", "DisabledTaskDrivers", "EnabledNetworkModes", "DisabledNetworkModes")
)


async def list_namespaces(call: ApiCall) -> Response:
    page, prefix = PageRequest.of(call), call.query.get("prefix", "")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        found = [
            each
            for each in snapshot.namespaces.all()
            if each.name.startswith(prefix) and call.rights.sees_namespace(each.name)
        ]
        chosen, headers = page.apply(found, lambda each: each.name)
        return [shown(each) for each in chosen], headers

    return await answer_list(call, ("namespaces",), read)


def shown(namespace: Namespace) -> Any:
    value = nomad_json.tree(namespace)
    value.update(
        Hash=_hash(namespace),
        NodePoolConfiguration=None,
        VaultConfiguration=None,
        ConsulConfiguration=None,
        OptionalExtraClaims=None,
        RequiredExtraClaims=None,
        Meta=namespace.meta or None,
    )
    if value["Capabilities"] is not None:
        value["Capabilities"] = {**_NO_CAPABILITIES, **value["Capabilities"]}
    return value


def _hash(namespace: Namespace) -> str:
    """Returns Nomad's hash of what users set."""
    given = namespace.capabilities or {}
    drivers = [
        str(driver)
        for name in ("EnabledTaskDrivers", "DisabledTaskDrivers")
        for driver in nomad_json.get(given, name) or ()
    ]
    return nomad_json.text_hash(
        *(namespace.name, namespace.description, namespace.quota, *drivers),
        *nomad_json.in_order(namespace.meta),
    )


async def read_namespace(call: ApiCall) -> Response:
    return await answer_object(
        call,
        ("namespaces",),
        lambda snapshot: snapshot.namespaces.get(call.path["name"]),
        "Namespace not found",
        shown,
    )


async def put(call: ApiCall) -> Response:
    data = await call.body()
    namespace = nomad_json.decode(data, Namespace)
    named = call.path.get("name")
    if named and namespace.name and named != namespace.name:
        raise InvalidInputError("Namespace name does not match the path")
    namespace.name = namespace.name or named or ""
    if data.strip():
        _refuse_governance(namespace.name, nomad_json.decode_tree(data))
    return call.empty(index=await put_namespace(call.context, namespace))


def _refuse_governance(name: str, body: dict[str, Any]) -> None:
    """Raises RefusedError for what Nomad keeps for Enterprise."""
    if nomad_json.get(body, "NodePoolConfiguration") is not None:
        problem = "invalid node pool configuration: Node Pools Governance is unlicensed."
        raise RefusedError(f'Invalid namespace "{name}": {multiple_errors([problem])}')


async def delete(call: ApiCall) -> Response:
    return call.empty(
        index=await delete_namespace(call.context, call.path["name"], call.api.server.region)
    )


ENDPOINTS = [
    endpoint("/v1/namespaces", get=list_namespaces),
    endpoint("/v1/namespace", put=put),
    endpoint("/v1/namespace/{name}", get=read_namespace, put=put, delete=delete),
]
