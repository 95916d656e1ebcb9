"""Reads jobs from request bodies."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from jobspec.blocks.api_shape import WrongTypeError, complete, shape_of
from jobspec.canonical.typed import typed_job
from jobspec.canonicalize import canonicalize
from jobspec.writing.same_job import without_additions
from orchgit.api.call import ApiCall
from orchgit.api.shapes import go_json, nomad_json
from orchgit.api.shapes.job_words import type_words
from orchgit.api.shapes.payloads import unpacked
from orchgit.errors import InvalidInputError
from orchgit.model.job import Job, JobSubmission

_MAX_ON_LOOP_BYTES = 1 << 16
_FIELDS = {
    "Submission": go_json.tree("api.JobSubmission"),
    "Job": go_json.tree("api.Job"),
    "EnforceIndex": go_json.flag,
    "JobModifyIndex": go_json.whole("uint64"),
    "PolicyOverride": go_json.flag,
    "PreserveCounts": go_json.flag,
    "PreserveResources": go_json.flag,
    "EvalPriority": go_json.whole("int"),
    "Diff": go_json.flag,
}
_REGISTER = go_json.Fields("api.JobRegisterRequest", _FIELDS)
_PLAN = go_json.Fields("api.JobPlanRequest", _FIELDS)
_VALIDATE = go_json.Fields("api.JobValidateRequest", _FIELDS)


@dataclass(frozen=True, slots=True)
class JobBody:
    """A request's body and its job. Judging a large job takes seconds: not on the event loop."""

    fields: dict[str, Any]
    """The other fields of the body that are set."""
    job: Job
    is_large: bool
    policy_ids: dict[str, str]
    """The ids of the scaling policies as they were sent, by group: `job` has none."""


async def read_job_body(call: ApiCall) -> JobBody:
    """Reads the body of a register, plan or validate request. Raises InvalidInputError."""
    return await call.once(_read_body)


async def _read_body(call: ApiCall) -> JobBody:
    data = await call.body()
    is_large = len(data) > _MAX_ON_LOOP_BYTES
    return (
        await asyncio.to_thread(_read, call, data, True) if is_large else _read(call, data, False)
    )


def _read(call: ApiCall, data: bytes, is_large: bool) -> JobBody:
    path: str = call.request.scope["path"]
    kind = _VALIDATE if path == "/v1/validate/job" else _REGISTER
    fields = go_json.decode_body(data, _PLAN if path.endswith("/plan") else kind)
    job, policy_ids = _job_of(fields.get("Job"), call)
    return JobBody(fields, job, is_large, policy_ids)


def _job_of(tree: dict[str, Any] | None, call: ApiCall) -> tuple[Job, dict[str, str]]:
    """Returns the request's job, completed with its defaults, and the ids of its scaling policies.

    The namespace and region of the query beat those of the job. The job's origin is never read from
    a request: only gitops records one.
    """
    if tree is None:
        raise InvalidInputError("Job must be specified")
    try:
        whole = complete(tree, shape_of("job"))
    except WrongTypeError as error:
        raise InvalidInputError(type_words(error)) from error
    if not whole["ID"]:
        raise InvalidInputError("Job ID hasn't been provided")
    if payload := whole.get("Payload"):
        data = go_json.base64_bytes(payload, go_json.FieldPlace("Job", "Payload"))
        whole["Payload"] = unpacked(data) or None
    spec = canonicalize(without_additions(whole))
    if call.query.get("namespace"):
        spec["Namespace"] = call.namespace
    groups = whole["TaskGroups"] or ()
    policy_ids = {each["Name"]: each["Scaling"]["ID"] for each in groups if each["Scaling"]}
    return typed_job(spec), policy_ids


def submission_of_body(fields: dict[str, Any], job: Job) -> JobSubmission | None:
    tree = fields.get("Submission")
    if tree is None:
        return None
    submission = nomad_json.convert(tree, JobSubmission, "Submission.")
    submission.namespace, submission.job_id = job.namespace, job.id
    return submission
