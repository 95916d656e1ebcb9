"""Services found by name."""

from __future__ import annotations

import hashlib
from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routing import endpoint
from orchgit.errors import InvalidInputError, RefusedError
from orchgit.state.service_catalog import all_services
from orchgit.state.snapshot import Snapshot
from orchgit.whole_number import whole_number

_TABLES = ("allocations",)


async def list_services(call: ApiCall) -> Response:
    prefix = call.query.get("prefix", "")

    def read(snapshot: Snapshot) -> list[dict[str, Any]]:
        found = [
            each
            for each in all_services(snapshot, call.namespaces)
            if each["ServiceName"].startswith(prefix) and _is_shown(call, each)
        ]
        tags: dict[str, dict[str, set[str]]] = {}
        for each in sorted(found, key=lambda each: (each["Namespace"], each["ServiceName"])):
            names = tags.setdefault(each["Namespace"], {})
            names.setdefault(each["ServiceName"], set()).update(each["Tags"])
        return [
            {
                "Namespace": namespace,
                "Services": [
                    {"ServiceName": name, "Tags": sorted(used)} for name, used in names.items()
                ],
            }
            for namespace, names in tags.items()
        ]

    return await answer_list(call, _TABLES, read)


async def read_service(call: ApiCall) -> Response:
    page, choose = PageRequest.of(call), call.query.get("choose")
    chosen_count, key = _choice(choose) if choose else (0, "")

    def read(snapshot: Snapshot) -> tuple[list[dict[str, Any]], dict[str, str]]:
        name = call.path["name"]
        found = [
            each for each in all_services(snapshot, call.namespaces, name) if _is_shown(call, each)
        ]
        if choose:
            found = rendezvous(found, key)[:chosen_count]
        return page.apply(sorted(found, key=_registration_id), _registration_id)

    return await answer_list(call, _TABLES, read)


def _is_shown(call: ApiCall, service: dict[str, Any]) -> bool:
    """Returns whether the answer may hold the service. What one namespace holds was decided before;
    of all namespaces only those count that the caller sees."""
    return call.namespaces is not None or call.sees(service["Namespace"])


def _registration_id(service: dict[str, Any]) -> str:
    return str(service["ID"])


def rendezvous(found: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Orders the instances by rendezvous hashing: the same key prefers the same instances."""

    def weight(each: dict[str, Any]) -> bytes:
        return hashlib.blake2b(f"{key}\0{each['ID']}".encode(), digest_size=8).digest()

    return sorted(found, key=weight)


def _choice(text: str) -> tuple[int, str]:
    number, _, key = text.partition("|")
    count = whole_number(number)
    if count is None or count < 0 or not key:
        raise InvalidInputError(
            "failed to choose services: Parameter for choose must be in form '<number>|<key>'"
        )
    return count, key


async def delete(call: ApiCall) -> Response:
    """Refuses: registrations follow from allocations, so that none can be left over."""
    raise RefusedError("service registration not found")


ENDPOINTS = [
    endpoint("/v1/services", get=list_services),
    endpoint("/v1/service/{name}", get=read_service),
    endpoint("/v1/service/{name}/{id}", delete=delete),
]
