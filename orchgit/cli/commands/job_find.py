"""Finds the job that a command means."""

from __future__ import annotations

from typing import Any

from orchgit.cli.client.http_client import ApiClient, quoted


def find_job(client: ApiClient, identifier: str) -> dict[str, Any]:
    """Returns the job with this id, or the only one whose id begins with it."""
    return client.find("job", "/v1/jobs", identifier, per_page=20)


def of_job(client: ApiClient, found: dict[str, Any], what: str = "", **params: Any) -> Any:
    """Returns what belongs to a job, such as its `allocations`; "" is the job itself."""
    path = f"/v1/job/{quoted(found['ID'])}" + (f"/{what}" if what else "")
    return client.get(path, namespace=found["Namespace"], **params)
