"""Regions of sources and jobs: a cluster is one region, and runs no job of another. Pure."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from orchgit.errors import InvalidInputError
from orchgit.gitops.parsing.desired import DesiredJob
from orchgit.model.source import Source

UNNAMED = "global"
"""What a job file without a region has; the region of a cluster that names none."""


def check_region(source: Source, region: str) -> None:
    """Raises InvalidInputError for a source whose region is not that of this cluster."""
    if source.region not in ("", region):
        raise InvalidInputError(
            f"cannot use source {source.name!r} here: it is for region {source.region!r}, and this "
            f"cluster is region {region!r}; add it to the cluster of its region"
        )


def in_region(desired: DesiredJob, source: Source, region: str) -> DesiredJob:
    """Returns the job in the source's region if it names none. Raises InvalidInputError for a job
    of another region than this cluster's."""
    job = desired.job
    if job.region not in ("", UNNAMED, region):
        raise InvalidInputError(
            f"{desired.path}:{desired.line}:1: job {job.id!r} names region {job.region!r}, and "
            f"this cluster is region {region!r}: leave the file out with the source's Exclude, and "
            "follow it from the cluster of its region"
        )
    if not source.region or job.region == source.region:
        return desired
    return replace(desired, job=msgspec.structs.replace(job, region=source.region))
