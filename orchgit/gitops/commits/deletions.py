"""Which jobs a commit may delete, by the source's prune policy and the commit's messages. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from orchgit.gitops.commits.release import release_command
from orchgit.gitops.parsing.desired import JobKey
from orchgit.model.job import Job
from orchgit.model.source import ClaimDeletion, PrunePolicy

DELETE_TRAILER = "Orchgit-Delete"
_TRAILER = re.compile(rf"^{DELETE_TRAILER}:(.+)$", re.IGNORECASE | re.MULTILINE)


def delete_trailers(messages: Iterable[str]) -> frozenset[str]:
    """Returns the job names on `Orchgit-Delete:` lines; commas or spaces separate several."""
    return frozenset(
        name
        for message in messages
        for match in _TRAILER.finditer(message)
        for name in re.split(r"[,\s]+", match[1])
        if name
    )


def deletion_problems(
    source: str,
    gone: Sequence[JobKey],
    claim_owners: Iterable[JobKey],
    trailers: Collection[str],
    prune: PrunePolicy,
    job_count: int,
    is_empty: bool,
) -> list[str]:
    """Returns why the jobs that are gone from the commit may not be deleted.

    `claim_owners` are those of them that own sticky volume claims, `trailers` the job ids (or
    `namespace/id`) of the commit's `Orchgit-Delete:` lines. `job_count` is how many jobs the source
    has, and `is_empty` whether the commit has none.
    """
    problems = list(_claim_problems(claim_owners, trailers, prune))
    unnamed = [key for key in gone if not _may_delete(key, trailers, prune)]
    problems += _share_problems(source, unnamed, trailers, job_count, prune)
    if unnamed and is_empty:
        problems.append(
            "cannot apply a commit without any job file: an empty tree deletes nothing; to delete "
            f"the last jobs add '{DELETE_TRAILER}: {unnamed[0][1]}' lines to the commit message"
        )
    return problems


def emptied_file_problems(
    deleted: Iterable[Job], without_job: Collection[str], trailers: Collection[str]
) -> Iterable[str]:
    """Yields a problem for each deleted job whose file is still there and holds no job now: the
    paths of such files are `without_job`."""
    for job in deleted:
        file = job.origin.file if job.origin is not None else ""
        if file in without_job and not _is_named((job.namespace, job.id), trailers):
            yield (
                f"{file}:1:1: this file defined job {job.id!r} and holds no job now: remove "
                f"the file, or add the line '{DELETE_TRAILER}: {job.id}' to the commit message, to "
                "delete the job"
            )


def _is_named(key: JobKey, trailers: Collection[str]) -> bool:
    """Returns whether a trailer names the job itself."""
    return key[1] in trailers or "/".join(key) in trailers


def _may_delete(key: JobKey, trailers: Collection[str], prune: PrunePolicy) -> bool:
    """Returns whether a trailer gives leave to delete the job."""
    if _is_named(key, trailers):
        return True
    return prune.wildcard and ("*" in trailers or f"{key[0]}/*" in trailers)


def _claim_problems(
    owners: Iterable[JobKey], trailers: Collection[str], prune: PrunePolicy
) -> Iterable[str]:
    """Yields why jobs without a file that own volume claims may not be deleted."""
    if prune.claims == ClaimDeletion.ALLOWED:
        return
    for key in owners:
        job_id = key[1]
        if prune.claims == ClaimDeletion.REFUSED:
            yield (
                f"cannot delete job {job_id!r}: it owns sticky volume claims, and this source "
                f"deletes no such job; put its file back, or release the job first with "
                f"`{release_command(key)}`"
            )
        elif not _is_named(key, trailers):
            yield (
                f"cannot delete job {job_id!r}: it owns sticky volume claims; add the line "
                f"'{DELETE_TRAILER}: {job_id}' to the commit message to delete it"
            )


def _share_problems(
    source: str,
    unnamed: Sequence[JobKey],
    trailers: Collection[str],
    job_count: int,
    prune: PrunePolicy,
) -> Iterable[str]:
    """Yields why so many jobs may not be deleted. `unnamed` are those that no trailer names."""
    if len(unnamed) * 100 > prune.max_share_percent * job_count and len(unnamed) > 1:
        names = ", ".join(job_id for _, job_id in unnamed[:5])
        more = ", ..." if len(unnamed) > 5 else ""
        yield (
            f"cannot delete {len(unnamed)} of {job_count} jobs ({names}{more})"
            f" in one commit: the limit is {prune.max_share_percent} %; add "
            f"'{DELETE_TRAILER}: <job>' lines to the commit message, or raise the limit with "
            f"`orchgit source set {source} -prune-max-share N`"
        )
        if not prune.wildcard and any(each == "*" or each.endswith("/*") for each in trailers):
            yield (
                f"cannot delete jobs by a wildcard in '{DELETE_TRAILER}:': this source does not "
                f"accept it (`orchgit source set {source} -prune-wildcard` does)"
            )
