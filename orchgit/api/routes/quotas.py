"""Quotas of namespaces, and what is taken of them; the shapes are those of Nomad Enterprise."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError
from orchgit.model.quota import QuotaAmounts, QuotaLimit, QuotaSpec
from orchgit.services.quotas import delete_quota, put_quota
from orchgit.state.quota_usage import namespaces_of_quota, quota_usage
from orchgit.state.snapshot import Snapshot

_USAGE_TABLES = ("quotas", "namespaces", "allocations")
_LIMIT_KEYS = frozenset(("Region", "RegionLimit", "Hash"))
_AMOUNT_KEYS = frozenset(("CPU", "Cores", "MemoryMB", "MemoryMaxMB"))
_NOT_FOUND = "Quota not found"


async def list_quotas(call: ApiCall) -> Response:
    page, prefix = PageRequest.of(call), call.query.get("prefix", "")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        chosen, headers = page.apply(snapshot.quotas.all(prefix), lambda each: each.name)
        return [_shown(each) for each in chosen], headers

    return await answer_list(call, ("quotas",), read)


async def read_quota(call: ApiCall) -> Response:
    name = call.path["name"]
    return await answer_object(
        call, ("quotas",), lambda snapshot: snapshot.quotas.get(name), _NOT_FOUND, _shown
    )


async def list_usages(call: ApiCall) -> Response:
    page, prefix = PageRequest.of(call), call.query.get("prefix", "")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        chosen, headers = page.apply(snapshot.quotas.all(prefix), lambda each: each.name)
        return [_usage(snapshot, each) for each in chosen], headers

    return await answer_list(call, _USAGE_TABLES, read)


async def read_usage(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> Any:
        quota = snapshot.quotas.get(call.path["name"])
        return _usage(snapshot, quota) if quota is not None else None

    return await answer_object(call, _USAGE_TABLES, read, _NOT_FOUND, lambda usage: usage)


async def put(call: ApiCall) -> Response:
    data = await call.body()
    _refuse_without_effect(nomad_json.decode_tree(data))
    quota = nomad_json.decode(data, QuotaSpec)
    named = call.path.get("name")
    if named and quota.name and named != quota.name:
        raise InvalidInputError("Quota name does not match the path")
    quota.name = quota.name or named or ""
    return call.empty(index=await put_quota(call.context, quota, call.api.server.region))


async def delete(call: ApiCall) -> Response:
    return call.empty(index=await delete_quota(call.context, call.path["name"]))


def _refuse_without_effect(body: dict[str, Any]) -> None:
    """Raises InvalidInputError for a limit that this cluster does not enforce."""
    for number, limit in enumerate(nomad_json.get(body, "Limits", kind=list) or ()):
        if not isinstance(limit, dict):
            continue
        amounts = limit.get("RegionLimit")
        found = [key for key in limit if key not in _LIMIT_KEYS and limit[key]]
        if isinstance(amounts, dict):
            unknown = (key for key in amounts if key not in _AMOUNT_KEYS and amounts[key])
            found += [f"RegionLimit.{key}" for key in unknown]
        if found:
            raise InvalidInputError(
                f"cannot store the quota: Limits[{number}].{found[0]} would have no effect; a "
                f"quota limits {', '.join(sorted(_AMOUNT_KEYS))}"
            )


def _shown(quota: QuotaSpec) -> Any:
    return {
        "Name": quota.name,
        "Description": quota.description,
        "Limits": [_limit(each, each.region_limit) for each in quota.limits],
        "Hash": nomad_json.content_hash(quota.name, quota.description, quota.limits),
        "CreateIndex": quota.create_index,
        "ModifyIndex": quota.modify_index,
    }


def _limit(limit: QuotaLimit, amounts: QuotaAmounts) -> dict[str, Any]:
    """Returns a limit, or with other amounts what is taken of it: both have the limit's hash."""
    return {
        "Region": limit.region,
        "RegionLimit": {
            "CPU": amounts.cpu,
            "Cores": amounts.cores,
            "MemoryMB": amounts.memory_mb,
            "MemoryMaxMB": amounts.memory_max_mb,
            "DiskMB": 0,
            "Networks": None,
            "Devices": None,
        },
        "VariablesLimit": 0,
        "Hash": _hash_of(limit),
    }


def _hash_of(limit: QuotaLimit) -> str:
    return nomad_json.content_hash(limit.region, limit.region_limit)


def _usage(snapshot: Snapshot, quota: QuotaSpec) -> Any:
    used = quota_usage(snapshot, namespaces_of_quota(snapshot, quota.name))
    return {
        "Name": quota.name,
        "Used": {_hash_of(limit): _limit(limit, used) for limit in quota.limits},
        "CreateIndex": quota.create_index,
        "ModifyIndex": quota.modify_index,
    }


ENDPOINTS = [
    endpoint("/v1/quotas", get=list_quotas),
    endpoint("/v1/quota", put=put),
    endpoint("/v1/quota/usage/{name}", get=read_usage),
    endpoint("/v1/quota/{name}", get=read_quota, put=put, delete=delete),
    endpoint("/v1/quota-usages", get=list_usages),
]
