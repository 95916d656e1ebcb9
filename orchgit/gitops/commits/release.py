"""The command that releases a job from its source, which messages name as the way out."""

from __future__ import annotations

from orchgit.gitops.parsing.desired import JobKey


def release_command(key: JobKey, *options: str) -> str:
    """Returns the command that releases a job from its source."""
    namespace, job_id = key
    where = () if namespace == "default" else ("-namespace", namespace)
    return " ".join(("orchgit source release", *options, *where, job_id))
