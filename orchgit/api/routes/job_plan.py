"""Plan, validate and parse: what a job would do, before it is registered."""

from __future__ import annotations

import asyncio
from datetime import datetime

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routes.jobs_write import warnings_text
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json, nomad_json
from orchgit.api.shapes.hcl_texts import hcl_text
from orchgit.api.shapes.job_body import JobBody, read_job_body
from orchgit.api.shapes.plan_diff import with_stored_policies
from orchgit.control.watchers.periodic_rules import next_launch_ns
from orchgit.errors import InvalidInputError, JobFileError, ValidationError
from orchgit.jobdiff.report import JobDiff
from orchgit.model.base import datetime_of_ns
from orchgit.model.job import Job
from orchgit.services.jobs.admission import Admitted, admit
from orchgit.services.jobs.dry_run import JobPlan
from orchgit.services.jobs.register import (
    check_enforced_index,
    with_counts_of,
    with_resources_of,
)

_PARSE = go_json.Fields(
    "api.JobsParseRequest",
    {"JobHCL": go_json.text, "Variables": go_json.text, "Canonicalize": go_json.flag},
)


async def plan(call: ApiCall) -> Response:
    """Returns what registering the job would do, without doing it."""
    given = await read_job_body(call)
    body, job = given.fields, given.job
    if job.id != call.path["job_id"]:
        raise InvalidInputError("Job ID does not match")
    admitted = await _admitted(call, given)
    job, registered = admitted.job, admitted.registered
    if body.get("EnforceIndex", False):
        check_enforced_index(body.get("JobModifyIndex", 0), registered)
    if body.get("PreserveCounts", False) and registered is not None:
        job = with_counts_of(job, registered)
    if body.get("PreserveResources", False) and registered is not None:
        job = with_resources_of(job, registered)
    (planned,) = (await call.api.dry_run.plan_jobs([job])).jobs
    diff = None
    if body.get("Diff", False):
        diff = with_stored_policies(planned.diff, registered, given.policy_ids)
    return _answer(call, planned, warnings_text(admitted.warnings), diff)


async def _admitted(call: ApiCall, given: JobBody) -> Admitted:
    rules = call.context.cluster_rules()

    def judge() -> Admitted:
        with call.context.snapshot() as snapshot:
            return admit(given.job, snapshot, rules)

    return await asyncio.to_thread(judge) if given.is_large else judge()


def _answer(call: ApiCall, planned: JobPlan, warnings: str, diff: JobDiff | None) -> Response:
    value = {
        "Annotations": planned.annotations,
        "FailedTGAllocs": planned.failed_tg_allocs or None,
        "JobModifyIndex": planned.job_modify_index,
        "CreatedEvals": planned.created_evals or None,
        "Diff": diff,
        "NextPeriodicLaunch": _next_launch(planned.job, call.context.now_ns()),
        "Warnings": warnings,
        "Index": planned.index if planned.job_modify_index else 0,
    }
    return call.answer(value, headers={"X-Nomad-Index": str(value["Index"])})


def _next_launch(job: Job, now_ns: int) -> datetime | None:
    if job.periodic is None or not job.periodic.enabled or job.stop:
        return None
    launch_ns = next_launch_ns(job.periodic, now_ns)
    return None if launch_ns is None else datetime_of_ns(launch_ns)


async def validate(call: ApiCall) -> Response:
    given = await read_job_body(call)
    problems: list[str] | None = None
    error, warnings = "", ""
    try:
        warnings = warnings_text((await _admitted(call, given)).warnings)
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


async def parse(call: ApiCall) -> Response:
    """Parses a job file's text; functions that read files are not available here."""
    body = await call.fields(_PARSE)
    text = body.get("JobHCL", "")
    if not text:
        raise InvalidInputError("Job spec is empty")
    variables, wants_defaults = body.get("Variables", ""), body.get("Canonicalize", False)
    try:
        spec = await call.api.job_texts.spec(text.encode(), variables.encode(), wants_defaults)
    except JobFileError as error:
        told = hcl_text(error.problems, text) if error.problems else str(error)
        raise InvalidInputError(f"Failed to parse job: {told}") from error
    return call.answer(nomad_json.Raw(spec))


ENDPOINTS = [
    endpoint("/v1/job/{job_id:path}/plan", put=plan),
    endpoint("/v1/validate/job", put=validate),
    endpoint("/v1/jobs/parse", put=parse),
]
