"""Finds the allocation and the task that a command means."""

from __future__ import annotations

from typing import Any

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted


def find(client: ApiClient, identifier: str) -> dict[str, Any]:
    """Returns the allocation with this id, or the only one whose id begins with it."""
    return client.find("alloc", "/v1/allocations", identifier, namespace=client.namespace or "*")


def find_or_of_job(
    client: ApiClient, identifier: str, is_job: bool, group: str | None
) -> dict[str, Any]:
    """Returns the allocation, or with `is_job` the newest running one of a job (and group)."""
    if not is_job:
        return find(client, identifier)
    job = client.find("job", "/v1/jobs", identifier, per_page=20)
    found = client.get(f"/v1/job/{quoted(job['ID'])}/allocations", namespace=job["Namespace"])
    of_group = [each for each in found if group in (None, each["TaskGroup"])]
    running = [each for each in of_group if each["ClientStatus"] == "running"] or of_group
    if not running:
        what = f"group {group!r} of job" if group else "job"
        raise ApiError(f"cannot choose an allocation: {what} {job['ID']!r} has none")
    newest: dict[str, Any] = max(running, key=lambda each: each["CreateIndex"])
    return newest


def task_of(client: ApiClient, found: dict[str, Any], name: str | None) -> str:
    """Returns the task named, or that of a one-task allocation; with several, the error names
    them."""
    if name:
        return name
    names = sorted(found.get("TaskStates") or {})
    if not names:
        data = client.get(f"/v1/allocation/{found['ID']}")
        groups = (data.get("Job") or {}).get("TaskGroups") or []
        names = [
            task["Name"]
            for group in groups
            if group["Name"] == found["TaskGroup"]
            for task in group["Tasks"]
        ]
    if len(names) != 1:
        raise ApiError(f"cannot tell which task: name one of {', '.join(names)}")
    return str(names[0])
