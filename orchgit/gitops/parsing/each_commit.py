"""Hooks that run with each commit: their job is another one in each commit. Pure.

The commit's id is put into the job's meta, so that registering the job runs it again, and the task
can read it as `NOMAD_META_orchgit_commit`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from msgspec.structs import replace as replace_fields

from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.job_names import jobs_named
from orchgit.model.repository_policy import HookRun, RepositoryPolicy

COMMIT_META = "orchgit.commit"


def with_commit(
    jobs: Mapping[JobKey, DesiredJob], policy: RepositoryPolicy, commit_id: str
) -> dict[JobKey, DesiredJob]:
    """Returns the jobs with the commit's id in those of the hooks that run with each commit."""
    found = dict(jobs)
    for hook in policy.hooks:
        if hook.run != HookRun.EACH_COMMIT:
            continue
        for key in jobs_named(hook.job, jobs)[:1]:
            known = jobs[key]
            job = replace_fields(known.job, meta={**(known.job.meta or {}), COMMIT_META: commit_id})
            content = hashlib.sha256(f"{known.content_id}:{commit_id}".encode()).hexdigest()[:32]
            found[key] = replace(known, job=job, content_id=content)
    return found
