"""A job as a job file defines it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchgit.model.job import Job

JobKey = tuple[str, str]
"""(namespace, job id): a job's identity, whichever file it is in."""


@dataclass(frozen=True, slots=True)
class DesiredJob:
    """A job as a file defines it, before admission. `content_id` is a digest of the file's content
    and of the variables and files that it was read with, without its path and the parser.
    `group_lines` are the lines of its groups' blocks, as far as they are known."""

    job: Job
    path: str
    line: int
    blob_id: str
    content_id: str = ""
    group_lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> JobKey:
        return (self.job.namespace, self.job.id)
