"""Jobs as request bodies carry them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from jobspec.canonicalize import canonicalize
from jobspec.typed import typed_job
from orchgit.api import nomad_json
from orchgit.api.call import Call
from orchgit.errors import InvalidInputError
from orchgit.model.job import Job, JobSubmission

_MAX_ON_LOOP_BYTES = 1 << 16
_INT64 = 1 << 63
_UNSIGNED = ("Index", "Version")


@dataclass(frozen=True, slots=True)
class JobBody:
    """A request's body and its job. A large one takes seconds to judge: not on the event loop."""

    tree: dict[str, Any]
    job: Job
    is_large: bool


async def read_job_body(call: Call) -> JobBody:
    """Raises InvalidInputError."""
    data = await call.body()
    is_large = len(data) > _MAX_ON_LOOP_BYTES
    return (
        await asyncio.to_thread(_read, call, data, True) if is_large else _read(call, data, False)
    )


def _read(call: Call, data: bytes, is_large: bool) -> JobBody:
    tree = nomad_json.decode_tree(data)
    return JobBody(tree, _job_of(tree, call), is_large)


def _job_of(body: dict[str, Any], call: Call) -> Job:
    """The job of a register, plan or validate request, completed with its defaults.

    The namespace and region of the query beat those of the job. Where a job came from is not a
    caller's to say, and no part of what is read here: only gitops records an origin.
    """
    tree = nomad_json.get(body, "Job")
    if not isinstance(tree, dict):
        raise InvalidInputError("Job must be specified")
    if not nomad_json.get(tree, "ID"):
        raise InvalidInputError("Job ID hasn't been provided")
    _check_integers(tree, "Job")
    spec = canonicalize(tree)
    if call.query.get("namespace"):
        spec["Namespace"] = call.namespace
    return typed_job(spec)


def _check_integers(tree: Any, path: str) -> None:
    """JSON has whole numbers of any length; what is stored and computed with has 64 bits. Raises
    InvalidInputError that names the field."""
    waiting: list[tuple[str, Any]] = [(path, tree)]
    while waiting:
        path, value = waiting.pop()
        if type(value) is dict:
            waiting.extend((f"{path}.{key}", each) for key, each in value.items())
        elif type(value) is list:
            waiting.extend((path, each) for each in value)
        elif type(value) is int and not -_INT64 <= value < _INT64:
            if path.endswith(_UNSIGNED) and 0 <= value < 2 * _INT64:
                continue
            raise InvalidInputError(f"{path}: {str(value)[:40]} is out of the range of 64 bits")


def submission_of_body(body: dict[str, Any], job: Job) -> JobSubmission | None:
    tree = nomad_json.get(body, "Submission")
    if not isinstance(tree, dict):
        return None
    submission = nomad_json.convert(tree, JobSubmission)
    submission.namespace, submission.job_id = job.namespace, job.id
    return submission
