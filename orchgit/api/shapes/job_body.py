"""Reads jobs from request bodies."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from jobspec.blocks.api_shape import complete, shape_of
from jobspec.canonical.typed import typed_job
from jobspec.canonicalize import canonicalize
from jobspec.writing.same_job import without_additions
from orchgit.api.call import ApiCall
from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError
from orchgit.model.job import Job, JobSubmission

_MAX_ON_LOOP_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class JobBody:
    """A request's body and its job. Judging a large job takes seconds: not on the event loop."""

    tree: dict[str, Any]
    job: Job
    is_large: bool


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
    tree = nomad_json.decode_tree(data)
    return JobBody(tree, _job_of(tree, call), is_large)


def _job_of(body: dict[str, Any], call: ApiCall) -> Job:
    """Returns the request's job, completed with its defaults.

    The namespace and region of the query beat those of the job. The job's origin is never read from
    a request: only gitops records one.
    """
    tree = nomad_json.get(body, "Job")
    if not isinstance(tree, dict):
        raise InvalidInputError("Job must be specified")
    if not nomad_json.get(tree, "ID"):
        raise InvalidInputError("Job ID hasn't been provided")
    spec = canonicalize(without_additions(complete(tree, shape_of("job"))))
    if call.query.get("namespace"):
        spec["Namespace"] = call.namespace
    return typed_job(spec)


def submission_of_body(body: dict[str, Any], job: Job) -> JobSubmission | None:
    tree = nomad_json.get(body, "Submission")
    if not isinstance(tree, dict):
        return None
    submission = nomad_json.convert(tree, JobSubmission)
    submission.namespace, submission.job_id = job.namespace, job.id
    return submission
