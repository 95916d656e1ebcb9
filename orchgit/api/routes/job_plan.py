"""Before registering: plan, validate, parse."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from jobspec.canonicalize import canonicalize
from jobspec.parse import parse_job
from orchgit.api import nomad_json
from orchgit.api.call import Call
from orchgit.api.job_body import job_of_body
from orchgit.api.routes.jobs_write import warnings_text
from orchgit.api.routing import endpoint
from orchgit.errors import InvalidInputError, JobFileError, ValidationError
from orchgit.services.admission import admit
from orchgit.services.dry_run import JobPlan
from orchgit.services.register_job import check_enforced_index, with_counts_of


async def plan(call: Call) -> Response:
    """What registering the job would do, without doing it."""
    body = await call.json()
    job = job_of_body(body, call)
    if job.id != call.path["job_id"]:
        raise InvalidInputError("Job ID does not match")
    rules = call.world.cluster_rules()
    with call.world.snapshot() as snapshot:
        admitted = admit(job, snapshot, rules)
    job, registered = admitted.job, admitted.registered
    if nomad_json.get(body, "EnforceIndex", False):
        check_enforced_index(nomad_json.get(body, "JobModifyIndex", 0), registered)
    if nomad_json.get(body, "PreserveCounts", False) and registered is not None:
        job = with_counts_of(job, registered)
    (planned,) = (await call.context.dry_run.plan_jobs([job])).jobs
    with_diff = nomad_json.get(body, "Diff", False)
    return _answer(call, planned, warnings_text(admitted.warnings), with_diff)


def _answer(call: Call, planned: JobPlan, warnings: str, with_diff: bool) -> Response:
    value = {
        "Annotations": planned.annotations,
        "FailedTGAllocs": planned.failed_tg_allocs or None,
        "JobModifyIndex": planned.job_modify_index,
        "CreatedEvals": planned.created_evals or None,
        "Diff": planned.diff if with_diff else None,
        "NextPeriodicLaunch": planned.next_periodic_launch,
        "Warnings": warnings,
        "Index": planned.index,
    }
    return call.answer(value, index=planned.index)


async def validate(call: Call) -> Response:
    body = await call.json()
    job = job_of_body(body, call)
    problems: list[str] | None = None
    error, warnings = "", ""
    rules = call.world.cluster_rules()
    with call.world.snapshot() as snapshot:
        try:
            warnings = warnings_text(admit(job, snapshot, rules).warnings)
        except ValidationError as failure:
            problems, error = list(failure.problems), str(failure)
            warnings = warnings_text(failure.warnings)
    value = {
        "DriverConfigValidated": True,
        "ValidationErrors": problems,
        "Error": error,
        "Warnings": warnings,
    }
    return call.answer(value)


async def parse(call: Call) -> Response:
    """A job file's text as a job; functions that read files are not available here."""
    body = await call.json()
    text = nomad_json.get(body, "JobHCL", "")
    if not text:
        raise InvalidInputError("Job spec is empty")
    try:
        spec = _parsed(text, nomad_json.get(body, "Variables", ""))
    except JobFileError as error:
        problems = "\n".join(error.problems) or str(error)
        raise InvalidInputError(f"Failed to parse job: {problems}") from error
    wants_defaults = nomad_json.get(body, "Canonicalize", False)
    return call.answer(canonicalize(spec) if wants_defaults else spec)


def _parsed(text: str, variables: str) -> dict[str, Any]:
    var_files = [("input.vars.hcl", variables.encode())] if variables else []
    parsed = parse_job(text.encode(), filename="input.hcl", var_files=var_files)
    return dict(parsed.spec)


ENDPOINTS = [
    endpoint("/v1/job/{job_id:path}/plan", put=plan),
    endpoint("/v1/validate/job", put=validate),
    endpoint("/v1/jobs/parse", put=parse),
]
