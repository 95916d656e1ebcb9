"""A job's history: versions, their sources, stability, reverting."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_object, blocking_read
from orchgit.api.call import ApiCall
from orchgit.api.caller import changed_by
from orchgit.api.errors import text_response
from orchgit.api.routes.jobs_write import registered_answer
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json
from orchgit.errors import InvalidInputError, RefusedError
from orchgit.jobdiff.compare import diff_jobs
from orchgit.model.job import Job
from orchgit.replication.commands.jobs import SetJobVersionTag
from orchgit.services.jobs.revert import revert_job
from orchgit.services.jobs.stability import set_job_stability
from orchgit.services.jobs.tags import tag_job_version, untag_job_version
from orchgit.state.snapshot import Snapshot

_REVERT = go_json.Fields(
    "structs.JobRevertRequest",
    {
        "JobID": go_json.text,
        "JobVersion": go_json.whole("uint64"),
        "EnforcePriorVersion": go_json.whole("uint64"),
        "ConsulToken": go_json.text,
        "VaultToken": go_json.text,
    },
)
_STABLE = go_json.Fields(
    "structs.JobStabilityRequest",
    {"JobID": go_json.text, "JobVersion": go_json.whole("uint64"), "Stable": go_json.flag},
)
_TAG = go_json.Fields(
    "api.TagVersionRequest",
    {
        "Version": go_json.whole("uint64"),
        "Latest": go_json.flag,
        "Description": go_json.text,
    },
)


async def versions(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> tuple[list[Job], int]:
        found = snapshot.job_versions.of_job(call.namespace, call.path["job_id"])
        newest = max((job.modify_index for job in found), default=0)
        return found, newest or snapshot.table_indexes.newest("jobs")

    found, index = await blocking_read(call, ("jobs",), read)
    if not found:
        headers = {"X-Nomad-Index": str(index), **call.contact_headers()}
        return text_response("job versions not found", 404, headers)
    with_diffs = call.flag("diffs")

    def answer() -> Response:
        diffs = _differences(call, found) if with_diffs else None
        return call.answer_query({"Versions": found, "Diffs": diffs}, index)

    return await asyncio.to_thread(answer)


def _differences(call: ApiCall, found: list[Job]) -> list[Any]:
    """Returns each version against the one before it, newest first; or each against the version
    that the query names by its number or its tag."""
    tag, number = call.query.get("diff_tag"), call.query.get("diff_version")
    if not tag and not number:
        return [diff_jobs(older, newer, contextual=True) for newer, older in pairwise(found)]
    if tag:
        named = [each for each in found if each.version_tag and each.version_tag.name == tag]
        missing = f'tag "{tag}" not found'
    else:
        wanted = call.number("diff_version")
        named = [each for each in found if each.version == wanted]
        missing = f"version {wanted} not found"
    if not named:
        raise RefusedError(missing)
    return [diff_jobs(named[0], each, contextual=True) for each in found]


async def submission(call: ApiCall) -> Response:
    if not call.query.get("version", "").isdecimal():
        raise InvalidInputError("Unable to parse job submission version parameter")
    version = call.number("version")
    answer = await answer_object(
        call,
        ("jobs",),
        lambda snapshot: snapshot.job_submissions.get(call.namespace, call.path["job_id"], version),
        "job source not found",
    )
    if answer.status_code == 404:
        answer.headers["X-Nomad-Index"] = "0"  # an index that a client must not wait for
    return answer


async def revert(call: ApiCall) -> Response:
    body = await call.fields(_REVERT)
    done = await revert_job(
        call.context,
        call.namespace,
        call.path["job_id"],
        body.get("JobVersion", 0),
        body.get("EnforcePriorVersion"),
        changed_by(call, "revert"),
    )
    return registered_answer(call, done, read=True)


async def stable(call: ApiCall) -> Response:
    body = await call.fields(_STABLE)
    index = await set_job_stability(
        call.context,
        call.namespace,
        call.path["job_id"],
        body.get("JobVersion", 0),
        body.get("Stable", False),
    )
    return call.answer({"Index": index}, index=index)


async def tag(call: ApiCall) -> Response:
    body = await call.fields(_TAG)
    version = body.get("Version")
    command = SetJobVersionTag(
        now_ns=call.context.now_ns(),
        namespace=call.namespace,
        job_id=call.path["job_id"],
        version=None if body.get("Latest") and not version else version,
        name=call.path["tag"],
        description=body.get("Description", ""),
    )
    done = await tag_job_version(call.context, command)
    value = {
        "Name": command.name,
        "Description": command.description,
        "TaggedTime": done.tagged_time_ns,
        **_written(done.index),
    }
    return call.answer(value)


async def untag(call: ApiCall) -> Response:
    job_id, name = call.path["job_id"], call.path["tag"]
    index = await untag_job_version(call.context, call.namespace, job_id, name)
    return call.answer({"Name": "", "Description": "", "TaggedTime": 0, **_written(index)})


def _written(index: int) -> dict[str, Any]:
    return {"Index": index, "LastContact": 0, "KnownLeader": False, "NextToken": ""}


ENDPOINTS = [
    endpoint("/v1/job/{job_id:path}/versions/{tag}/tag", put=tag, delete=untag),
    endpoint("/v1/job/{job_id:path}/versions", get=versions),
    endpoint("/v1/job/{job_id:path}/submission", get=submission),
    endpoint("/v1/job/{job_id:path}/revert", put=revert),
    endpoint("/v1/job/{job_id:path}/stable", put=stable),
]
