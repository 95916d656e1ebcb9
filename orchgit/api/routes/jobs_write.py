"""Registering, stopping, dispatching and evaluating jobs."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.caller import changed_by
from orchgit.api.routes.jobs_read import list_jobs, read_job
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json
from orchgit.api.shapes.job_body import JobBody, read_job_body, submission_of_body
from orchgit.errors import InvalidInputError
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.dispatch import DispatchRequest, dispatch_job
from orchgit.services.jobs.evaluate import evaluate_job
from orchgit.services.jobs.force_periodic import periodic_force
from orchgit.services.jobs.register import JobRegistration, RegisterOptions, register_job

_DISPATCH = go_json.Fields(
    "structs.JobDispatchRequest",
    {
        "JobID": go_json.text,
        "Payload": go_json.base64_bytes,
        "Meta": go_json.text_map,
        "IdPrefixTemplate": go_json.text,
        "Priority": go_json.whole("int"),
        "IdempotencyToken": go_json.embedded("WriteRequest", go_json.text),
    },
)
_EVAL_OPTIONS = go_json.Fields("structs.EvalOptions", {"ForceReschedule": go_json.flag})
_EVALUATE = go_json.Fields(
    "structs.JobEvaluateRequest",
    {"JobID": go_json.text, "EvalOptions": go_json.struct(_EVAL_OPTIONS)},
)


async def register(call: ApiCall) -> Response:
    return await _register(call, await read_job_body(call))


async def register_named(call: ApiCall) -> Response:
    body = await read_job_body(call)
    if body.job.id != call.path["job_id"]:
        raise InvalidInputError("Job ID does not match name")
    return await _register(call, body)


async def _register(call: ApiCall, given: JobBody) -> Response:
    body, job = given.fields, given.job
    enforce = body.get("EnforceIndex", False)
    options = RegisterOptions(
        enforce_index=body.get("JobModifyIndex", 0) if enforce else None,
        preserve_counts=body.get("PreserveCounts", False),
        preserve_resources=body.get("PreserveResources", False),
        eval_priority=body.get("EvalPriority", 0),
        submission=submission_of_body(body, job),
        in_thread=given.is_large,
        changed_by=changed_by(call, "register"),
    )
    done = await register_job(call.context, job, options)
    return registered_answer(call, done)


def registered_answer(
    call: ApiCall,
    done: JobRegistration,
    more: dict[str, Any] | None = None,
    known_leader: bool = False,
    read: bool = False,
) -> Response:
    value = {
        **(more or {}),
        "EvalID": done.eval_id,
        "EvalCreateIndex": done.eval_create_index,
        "JobModifyIndex": done.job_modify_index,
        "Warnings": warnings_text(done.warnings),
        "Index": done.index,
        "LastContact": 0,
        "KnownLeader": known_leader,
        "NextToken": "",
    }
    # The meta of the write itself, which no follower answers.
    contact = {"X-Nomad-KnownLeader": "false", "X-Nomad-LastContact": "0"} if read else {}
    return call.answer(value, index=done.index, headers=contact)


def warnings_text(warnings: Any) -> str:
    """Returns the list that the CLI prints as it comes; "" when there are none."""
    if not warnings:
        return ""
    noun = "warning" if len(warnings) == 1 else "warnings"
    lines = "\n".join(f"* {warning}" for warning in warnings)
    return f"{len(warnings)} {noun}:\n\n{lines}"


async def deregister(call: ApiCall) -> Response:
    purge = call.flag("purge")
    options = DeregisterOptions(
        purge=purge,
        no_shutdown_delay=call.flag("no_shutdown_delay"),
        eval_priority=call.number("eval_priority"),
        changed_by=changed_by(call, "purge" if purge else "stop"),
    )
    done = await deregister_job(call.context, call.namespace, call.path["job_id"], options)
    return registered_answer(call, done, more={"VolumeEvalID": "", "VolumeEvalIndex": 0})


async def dispatch(call: ApiCall) -> Response:
    body = await call.fields(_DISPATCH)
    token = call.query.get("idempotency_token") or body.get("IdempotencyToken", "")
    request = DispatchRequest(
        payload=body.get("Payload", b""),
        meta=body.get("Meta", {}),
        idempotency_token=token,
        id_prefix=body.get("IdPrefixTemplate", ""),
        priority=body.get("Priority", 0),
    )
    return await _dispatched(call, request)


async def dispatch_payload(call: ApiCall) -> Response:
    """Dispatches the job with the request's body as its payload."""
    payload = await call.body()
    token = call.query.get("idempotency_token", "")
    return await _dispatched(call, DispatchRequest(payload=payload, idempotency_token=token))


async def _dispatched(call: ApiCall, request: DispatchRequest) -> Response:
    done = await dispatch_job(call.context, call.namespace, call.path["job_id"], request)
    value = {
        "DispatchedJobID": done.job_id,
        "EvalID": done.eval_id,
        "EvalCreateIndex": done.index if done.eval_id else 0,
        "JobCreateIndex": done.job_create_index,
        "Index": done.index,
    }
    return call.answer(value, index=done.index)


async def evaluate(call: ApiCall) -> Response:
    body = await call.fields(_EVALUATE, may_be_empty=True)
    force = body.get("EvalOptions", {}).get("ForceReschedule", False)
    done = await evaluate_job(call.context, call.namespace, call.path["job_id"], force)
    return registered_answer(call, done)


async def force_periodic(call: ApiCall) -> Response:
    done = await periodic_force(call.context, call.namespace, call.path["job_id"])
    value = {
        "EvalID": done.eval_id,
        "EvalCreateIndex": done.eval_create_index,
        "Index": done.index,
    }
    return call.answer(value, index=done.index)


ENDPOINTS = [
    endpoint("/v1/jobs", get=list_jobs, put=register),
    endpoint("/v1/job/{job_id:path}/dispatch", put=dispatch),
    endpoint("/v1/job/{job_id:path}/dispatch/payload", put=dispatch_payload),
    endpoint("/v1/job/{job_id:path}/evaluate", put=evaluate),
    endpoint("/v1/job/{job_id:path}/periodic/force", put=force_periodic),
]
LAST_ENDPOINTS = [
    # Ids may hold slashes, so this one matches whatever no other job path did.
    endpoint("/v1/job/{job_id:path}", get=read_job, put=register_named, delete=deregister),
]
