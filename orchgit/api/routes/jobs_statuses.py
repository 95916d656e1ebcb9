"""Jobs with what Nomad's web UI shows beside each: allocations and the newest deployment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routes.jobs_read import job_token
from orchgit.api.routing import endpoint
from orchgit.api.shapes.statuses_body import read_statuses_body
from orchgit.errors import RefusedError
from orchgit.filters import FieldError
from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment, DeploymentStatus
from orchgit.model.job import Job
from orchgit.state.snapshot import Snapshot
from orchgit.state.tables.jobs import JobPlace


async def statuses(call: ApiCall) -> Response:
    page = PageRequest.of(call)
    newest_first = replace(page, reverse=not page.reverse)
    children = call.flag("include_children")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        if page.per_page and page.matches is None:
            places = [
                place
                for place in call.visible(snapshot.jobs.places(call.namespaces))
                if children or not place.parent_id
            ]
            some, headers = newest_first.apply(places, _token)
            named = [snapshot.jobs.get(place.namespace, place.id) for place in some]
            return [_status(snapshot, job) for job in named if job is not None], headers
        jobs = call.visible(snapshot.jobs.all(call.namespaces))
        found = [job for job in jobs if children or not job.parent_id]
        found.sort(key=lambda job: (job.modify_index, job.namespace, job.id))
        try:
            chosen, headers = newest_first.apply(found, _token)
        except FieldError as error:
            raise RefusedError(str(error)) from error
        return [_status(snapshot, job) for job in chosen], headers

    return await answer_list(call, ("jobs", "allocations", "deployments"), read)


def _token(job: Job | JobPlace) -> str:
    return f"{job.modify_index}.{job_token(job)}"


async def chosen_statuses(call: ApiCall) -> Response:
    """Returns the jobs named in the body, newest change first; without a body as GET."""
    asked = await read_statuses_body(call)
    if asked is None:
        return await statuses(call)

    def read(snapshot: Snapshot) -> list[Any]:
        within = [key for key in asked.keys if asked.namespace in ("*", key[0])]
        named = [snapshot.jobs.get(*key) for key in dict.fromkeys(within) if call.sees(key[0])]
        jobs = [
            job for job in named if job is not None and (asked.with_children or not job.parent_id)
        ]
        jobs.sort(key=lambda job: (job.modify_index, job.namespace, job.id), reverse=True)
        return [_status(snapshot, job) for job in jobs]

    return await answer_list(call, ("jobs", "allocations", "deployments"), read)


def _status(snapshot: Snapshot, job: Job) -> dict[str, Any]:
    is_parent = job.is_periodic or job.is_parameterized  # its children have the rest
    deployment = None if is_parent else snapshot.deployments.latest_of_job(job.namespace, job.id)
    allocations = [] if is_parent else snapshot.allocations.of_job(job.namespace, job.id)
    children = snapshot.jobs.of_parent(job.namespace, job.id) if is_parent else []
    return {
        "ID": job.id,
        "Name": job.name,
        "Namespace": job.namespace,
        "ParentID": job.parent_id,
        "Type": job.type,
        "NodePool": job.node_pool,
        "Datacenters": job.datacenters,
        "Priority": job.priority,
        "Version": job.version,
        "Status": job.status,
        "Stop": job.stop,
        "SubmitTime": job.submit_time_ns,
        "ModifyIndex": job.modify_index,
        "IsPack": "pack.name" in (job.meta or {}),
        "GroupCountSum": sum(group.count for group in job.task_groups),
        "ChildStatuses": [child.status for child in children] if is_parent else None,
        "Allocs": [_alloc(each) for each in allocations] or None,
        "LatestDeployment": _deployment(deployment) if deployment else None,
    }


def _alloc(each: Allocation) -> dict[str, Any]:
    health = each.deployment_status
    return {
        "ID": each.id,
        "Group": each.task_group,
        "ClientStatus": each.client_status,
        "NodeID": each.node_id,
        "JobVersion": each.job_version,
        "FollowupEvalID": each.followup_eval_id,
        "HasPausedTask": any(state.paused for state in (each.task_states or {}).values()),
        "DeploymentStatus": {
            "Canary": health.canary if health else False,
            "Healthy": health.healthy if health else None,
        },
    }


def _deployment(each: Deployment) -> dict[str, Any]:
    is_running = each.status == DeploymentStatus.RUNNING
    states = list(each.task_groups.values()) if is_running else []
    waits = any(state.desired_canaries and not state.promoted for state in states)
    promotes = all(state.auto_promote for state in states if state.desired_canaries)
    return {
        "ID": each.id,
        "IsActive": each.is_active,
        "JobVersion": each.job_version,
        "Status": each.status,
        "StatusDescription": each.status_description,
        "AllAutoPromote": bool(states) and promotes,
        "RequiresPromotion": waits,
    }


ENDPOINTS = [endpoint("/v1/jobs/statuses", get=statuses, put=chosen_statuses)]
