"""Jobs as request bodies carry them."""

from __future__ import annotations

from typing import Any

from jobspec.canonicalize import canonicalize
from jobspec.typed import typed_job
from orchgit.api import nomad_json
from orchgit.api.call import Call
from orchgit.errors import InvalidInputError
from orchgit.model.job import Job, JobSubmission


def job_of_body(body: dict[str, Any], call: Call) -> Job:
    """The job of a register, plan or validate request, completed with its defaults.

    The namespace and region of the query beat those of the job. Where a job came from is not a
    caller's to say, and no part of what is read here: only gitops records an origin.
    """
    tree = nomad_json.get(body, "Job")
    if not isinstance(tree, dict):
        raise InvalidInputError("Job must be specified")
    if not nomad_json.get(tree, "ID"):
        raise InvalidInputError("Job ID hasn't been provided")
    spec = canonicalize(tree)
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
