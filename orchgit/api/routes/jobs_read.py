"""Reading jobs: lists, one job, and what belongs to it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.errors import text_response
from orchgit.api.pagination import PageRequest, in_order_of_creation
from orchgit.api.routing import endpoint
from orchgit.api.shapes.evaluations import shown_evaluations
from orchgit.api.shapes.stubs import alloc_stub, with_children
from orchgit.model.job import Job
from orchgit.state.changes import job_key
from orchgit.state.service_catalog import services_of_job
from orchgit.state.snapshot import Snapshot
from orchgit.state.tables.jobs import JobPlace, LastChange

_LIST_TABLES = ("jobs", "allocations")
_ONE = ("jobs", "job_versions")
_OF_ALLOCATIONS = ("allocations", "jobs", "job_versions")


def job_token(job: Job | JobPlace | LastChange) -> str:
    return _token((job.namespace, job.id))


def _token(key: tuple[str, str]) -> str:
    return ".".join(key)


async def list_jobs(call: ApiCall) -> Response:
    page, with_meta = PageRequest.of(call), call.flag("meta")
    prefix, namespaces = call.query.get("prefix", ""), call.namespaces

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        jobs = snapshot.jobs
        if page.matches is None and not page.per_page:
            changes, headers = page.apply(
                call.visible(jobs.last_changes(namespaces, prefix)), job_token, namespaced=True
            )
            return call.api.job_stubs.of(snapshot, changes, with_meta), headers
        if page.matches is None:
            known = jobs.keys(namespaces, prefix)
            if not call.sees_everything:
                known = [key for key in known if call.sees(key[0])]
            keys, headers = page.apply(known, _token, namespaced=True)
        else:
            found = call.visible(jobs.all(namespaces, prefix))
            chosen, headers = page.apply(found, job_token, namespaced=True)
            keys = [(job.namespace, job.id) for job in chosen]
        return call.api.job_stubs.of(snapshot, jobs.last_changes_of(keys), with_meta), headers

    depends_on = ("jobs", "allocations", "evaluations")
    return await answer_list(call, _LIST_TABLES, read, depends_on=depends_on)


async def read_job(call: ApiCall) -> Response:
    job_id, version = call.path["job_id"], call.query.get("version")

    def read(snapshot: Snapshot) -> Job | None:
        if version is not None:
            return snapshot.job_versions.get(call.namespace, job_id, call.number("version"))
        return snapshot.jobs.get(call.namespace, job_id)

    key = job_key(call.namespace, job_id)
    return await answer_object(call, ("jobs",), read, "job not found", key=key, depends_on=_ONE)


async def summary(call: ApiCall) -> Response:
    return await answer_object(
        call,
        _LIST_TABLES,
        lambda snapshot: snapshot.job_summaries.get(call.namespace, call.path["job_id"]),
        "job not found",
        with_children,
    )


async def allocations(call: ApiCall) -> Response:
    everything = call.flag("all")

    def read(snapshot: Snapshot) -> Any:
        job_id = call.path["job_id"]
        found = snapshot.allocations.of_job(call.namespace, job_id)
        job = snapshot.jobs.get(call.namespace, job_id)
        if job is not None and not everything:
            # Those of an earlier job of the same name (purged and registered anew) are left out.
            found = [each for each in found if each.create_index >= job.create_index]
        return [alloc_stub(each) for each in in_order_of_creation(found)]

    return await answer_list(call, ("allocations",), read, depends_on=_OF_ALLOCATIONS)


async def evaluations(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> Any:
        found = snapshot.evaluations.of_job(call.namespace, call.path["job_id"])
        return shown_evaluations(snapshot, in_order_of_creation(found)[::-1], found)

    return await answer_list(call, ("evaluations",), read)


async def services(call: ApiCall) -> Response:
    return await answer_list(
        call,
        _LIST_TABLES,
        lambda snapshot: services_of_job(snapshot, call.namespace, call.path["job_id"]),
    )


async def actions(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> Any:
        job = snapshot.jobs.get(call.namespace, call.path["job_id"])
        return None if job is None else _actions(job)

    with call.context.snapshot() as snapshot:
        found = read(snapshot)
    if found is None:
        return text_response("job not found", 404)
    unset = {"X-Nomad-Index": "0", "X-Nomad-KnownLeader": "false", "X-Nomad-LastContact": "0"}
    return call.answer(found, headers=unset)


def _actions(job: Job) -> list[dict[str, Any]]:
    return [
        {
            "Name": action.name,
            "Command": action.command,
            "Args": action.args,
            "TaskName": task.name,
            "TaskGroupName": group.name,
        }
        for group in job.task_groups
        for task in group.tasks
        for action in task.actions or ()
    ]


ENDPOINTS = [
    endpoint("/v1/job/{job_id:path}/summary", get=summary),
    endpoint("/v1/job/{job_id:path}/allocations", get=allocations),
    endpoint("/v1/job/{job_id:path}/evaluations", get=evaluations),
    endpoint("/v1/job/{job_id:path}/services", get=services),
    endpoint("/v1/job/{job_id:path}/actions", get=actions),
]
