"""`/v1/gitops/authors`: whose tokens changed what, as far as access control was on then."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routing import endpoint
from orchgit.state.snapshot import Snapshot

_TABLES = ("authored_changes",)


async def authors(call: ApiCall) -> Response:
    """Lists the last change of each object, the newest first."""
    page = PageRequest.of(call)

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        found = sorted(
            snapshot.authored_changes.all(), key=lambda each: (-each.modify_index, each.id)
        )
        return page.apply(found, lambda each: each.id)

    return await answer_list(call, _TABLES, read)


async def authors_of_job(call: ApiCall) -> Response:
    """Lists who made which version of a job: its key ends with `@version`."""
    namespace, job_id = call.namespace, call.path["job_id"]

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        versions = [each.version for each in snapshot.job_versions.of_job(namespace, job_id)]
        return snapshot.authored_changes.of_job(namespace, job_id, versions), {}

    return await answer_list(call, (*_TABLES, "jobs"), read)


ENDPOINTS = [
    endpoint("/v1/gitops/authors", get=authors),
    endpoint("/v1/gitops/authors/{job_id:path}", get=authors_of_job),
]
