"""Scaling: a group's count, and the policies autoscalers read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.caller import changed_by
from orchgit.api.routes.jobs_write import registered_answer
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.group import ScalingPolicy
from orchgit.model.job import Job
from orchgit.model.scaling import ScalingEvent
from orchgit.services.identifiers import scaling_policy_id
from orchgit.services.jobs.scale import ScaleRequest, scale_job
from orchgit.state.snapshot import Snapshot

_SCALE = go_json.Fields(
    "api.ScalingRequest",
    {
        "Count": go_json.whole("int64"),
        "Target": go_json.text_map,
        "Message": go_json.text,
        "Error": go_json.flag,
        "Meta": go_json.any_map,
        "PolicyOverride": go_json.flag,
        "JobModifyIndex": go_json.whole("uint64"),
    },
)


async def scale(call: ApiCall) -> Response:
    body = await call.fields(_SCALE)
    request = ScaleRequest(
        group=body.get("Target", {}).get("Group", ""),
        count=body.get("Count"),
        message=body.get("Message", ""),
        meta=body.get("Meta"),
        error=body.get("Error", False),
        policy_override=body.get("PolicyOverride", False),
        expected_modify_index=body.get("JobModifyIndex", 0),
        changed_by=changed_by(call, "scale"),
    )
    done = await scale_job(call.context, call.namespace, call.path["job_id"], request)
    return registered_answer(call, done, known_leader=True)


async def status(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> Any:
        job = snapshot.jobs.get(call.namespace, call.path["job_id"])
        if job is None:
            return None
        events = snapshot.scaling_events.get(job.namespace, job.id)
        allocations = snapshot.allocations.of_job(job.namespace, job.id)
        return _status(job, allocations, events.groups if events else {})

    tables = ("jobs", "allocations", "scaling_events")
    return await answer_object(call, tables, read, "job not found")


def _status(
    job: Job, allocations: list[Allocation], events: Mapping[str, list[ScalingEvent]]
) -> dict[str, Any]:
    canaries = {
        each.id for each in allocations if (known := each.deployment_status) and known.canary
    }
    live = [each for each in allocations if not each.is_terminal and each.id not in canaries]
    return {
        "JobID": job.id,
        "Namespace": job.namespace,
        "JobCreateIndex": job.create_index,
        "JobModifyIndex": job.job_modify_index,
        "JobStopped": job.stop,
        "TaskGroups": {
            group.name: {
                **_group_status(
                    group.count, [each for each in live if each.task_group == group.name]
                ),
                "Events": events.get(group.name),
            }
            for group in job.task_groups
        },
    }


def _group_status(desired: int, live: list[Allocation]) -> dict[str, Any]:
    health = [each.deployment_status.healthy for each in live if each.deployment_status]
    return {
        "Desired": desired,
        "Placed": len(live),
        "Running": sum(each.client_status == ClientStatus.RUNNING for each in live),
        "Healthy": sum(healthy is True for healthy in health),
        "Unhealthy": sum(healthy is False for healthy in health),
    }


async def policies(call: ApiCall) -> Response:
    wanted_job, wanted_type = call.query.get("job"), call.query.get("type")

    def read(snapshot: Snapshot) -> list[dict[str, Any]]:
        return [
            {
                "ID": policy.id,
                "Enabled": policy.enabled,
                "Type": policy.type,
                "Target": policy.target,
                "CreateIndex": policy.create_index,
                "ModifyIndex": policy.modify_index,
            }
            for policy in call.visible(_policies(snapshot, call.namespaces, wanted_job))
            if wanted_type in (None, "", policy.type)
        ]

    return await answer_list(call, ("jobs",), read)


async def policy(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> ScalingPolicy | None:
        found = call.visible(_policies(snapshot, None, None))
        return next((each for each in found if each.id == call.path["policy_id"]), None)

    return await answer_object(call, ("jobs",), read, "policy not found")


def _policies(snapshot: Snapshot, namespace: str | None, job_id: str | None) -> list[ScalingPolicy]:
    return [
        policy_of_group(job, place)
        for job in snapshot.jobs.all(namespace)
        if job_id in (None, "", job.id)
        for place, group in enumerate(job.task_groups)
        if group.scaling is not None
    ]


def policy_of_group(job: Job, place: int) -> ScalingPolicy:
    """Returns a group's policy with the id that follows from its target."""
    group = job.task_groups[place]
    scaling = group.scaling or ScalingPolicy()
    target = {"Namespace": job.namespace, "Job": job.id, "Group": group.name}
    return ScalingPolicy(
        id=scaling.id or scaling_policy_id(*target.values()),
        namespace=job.namespace,
        type=scaling.type,
        target=target,
        min=scaling.min,
        max=scaling.max,
        enabled=scaling.enabled,
        policy=scaling.policy,
        create_index=job.create_index,
        modify_index=job.job_modify_index,
    )


ENDPOINTS = [
    endpoint("/v1/job/{job_id:path}/scale", get=status, put=scale),
    endpoint("/v1/scaling/policies", get=policies),
    endpoint("/v1/scaling/policy/{policy_id}", get=policy),
]
