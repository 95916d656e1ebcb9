"""Allocations: lists, one, stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest, by_index, in_order_of_creation
from orchgit.api.routing import endpoint
from orchgit.api.shapes.stubs import AllocationWithJob, alloc_stub, allocation_with_job
from orchgit.model.allocation import Allocation
from orchgit.model.variable import RootKey
from orchgit.services.allocations.stop import stop_allocation
from orchgit.state.service_catalog import services_of_allocation
from orchgit.state.snapshot import Snapshot

_TABLES = ("allocations", "jobs", "job_versions")
"""What the answers are read from."""


async def list_allocations(call: ApiCall) -> Response:
    page, prefix = PageRequest.of(call), call.id_prefix("alloc lookup failed: ")
    states, resources = call.flag("task_states", True), call.flag("resources")
    looks_at_job = "Job." in call.query.get("filter", "")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        def view(each: Allocation) -> Allocation:
            return with_job(snapshot, each) if looks_at_job else each

        if page.per_page and page.matches is None and (call.namespaces or call.sees_everything):
            chosen, headers = _page_by_keys(snapshot, call.namespaces, prefix, page)
        else:
            known = call.visible(snapshot.allocations.all(call.namespaces, prefix))
            found = in_order_of_creation(known)
            chosen, headers = page.apply(found, by_index, view)
        return [alloc_stub(each, states, resources) for each in chosen], headers

    return await answer_list(call, ("allocations",), read, depends_on=_TABLES)


def _page_by_keys(
    snapshot: Snapshot, namespace: str | None, prefix: str, page: PageRequest
) -> tuple[list[Allocation], dict[str, str]]:
    """Returns one page; reads only the page's own rows, the rest by their keys."""
    keys = snapshot.allocations.keys(namespace, prefix)
    chosen, headers = page.apply(keys, lambda key: f"{key[0]}.{key[1]}")
    found = {each.id: each for each in snapshot.allocations.get_many([key[1] for key in chosen])}
    return [found[key[1]] for key in chosen], headers


def with_job(
    snapshot: Snapshot, each: Allocation, root_keys: Sequence[RootKey] = ()
) -> AllocationWithJob:
    job = snapshot.job_versions.nearest_to_allocation(each)
    return allocation_with_job(each, job, root_keys)


async def answer_allocations(
    call: ApiCall, read: Callable[[Snapshot], Iterable[Allocation]]
) -> Response:
    """Answers the stubs of these allocations, oldest first."""
    return await answer_list(
        call,
        ("allocations",),
        lambda snapshot: [alloc_stub(each) for each in in_order_of_creation(read(snapshot))],
    )


async def read_allocation(call: ApiCall) -> Response:
    alloc_id = call.object_id("alloc_id", "alloc")

    def read(snapshot: Snapshot) -> AllocationWithJob | None:
        found = snapshot.allocations.get(alloc_id)
        return with_job(snapshot, found, snapshot.root_keys.all()) if found else None

    return await answer_object(
        call,
        ("allocations",),
        read,
        "alloc not found",
        key=alloc_id,
        depends_on=(*_TABLES, "root_keys"),
    )


async def stop(call: ApiCall) -> Response:
    done = await stop_allocation(
        call.context, call.path["alloc_id"], call.flag("no_shutdown_delay")
    )
    return call.answer({"EvalID": done.eval_id, "Index": done.index}, index=done.index)


async def services(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> list[dict[str, Any]]:
        found = snapshot.allocations.get(call.path["alloc_id"])
        return services_of_allocation(snapshot, found) if found else []

    return await answer_list(call, ("allocations",), read)


ENDPOINTS = [
    endpoint("/v1/allocations", get=list_allocations),
    endpoint("/v1/allocation/{alloc_id}", get=read_allocation),
    endpoint("/v1/allocation/{alloc_id}/stop", put=stop),
    endpoint("/v1/allocation/{alloc_id}/services", get=services),
]
