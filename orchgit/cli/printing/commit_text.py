"""Prints the commit behind an object in one line: id, subject and author."""

from __future__ import annotations

from typing import Any

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.printing.output import plain, short


def commit_line(client: ApiClient, data: dict[str, Any], verbose: bool) -> str:
    """Returns the commit of an object; only its id where the rollout is deleted."""
    if not data.get("CommitID"):
        return ""
    shown = short(data["CommitID"], verbose)
    commit = commit_of_rollout(client, data.get("RolloutID") or "")
    return plain(f"{shown} {commit['Subject']} ({commit['Author']})") if commit else shown


def commit_of_rollout(client: ApiClient, rollout_id: str) -> dict[str, Any]:
    """Returns the rollout's commit; empty where the rollout is deleted."""
    if not rollout_id:
        return {}
    try:
        return dict(client.get(f"/v1/gitops/rollout/{rollout_id}")["Commit"])
    except ApiError as error:
        if error.status == 404:
            return {}
        raise
