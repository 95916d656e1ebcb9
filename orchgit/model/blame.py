"""Where something that runs or is stored comes from: commit, author, and line of the job file."""

from __future__ import annotations

from enum import StrEnum

from orchgit.model.author import AuthoredChange
from orchgit.model.base import Model
from orchgit.model.drift import JobDrift
from orchgit.model.job import ChangedBy


class BlameType(StrEnum):
    ALLOCATION = "allocation"
    NODE = "node"
    CLAIM = "claim"
    VOLUME = "volume"
    JOB = "job"
    VARIABLE = "variable"


class Blame(Model):
    """The origin of one thing of `type`; fields that do not concern it are empty.

    `line` is that of the `job` block, `group_line` that of the block of `task_group`; 0: not known.
    `commit_id` is empty for what no commit made. `changed_by` made this version of the job by hand;
    `drift` says how the job differs now from its file. `origins` are the jobs behind a node, a
    volume or a variable, each with its number of `allocations`.
    """

    type: str = ""
    alloc_id: str = ""
    node_id: str = ""
    node_name: str = ""
    claim_id: str = ""
    volume_id: str = ""
    volume_name: str = ""
    path: str = ""
    namespace: str = ""
    job_id: str = ""
    job_version: int = 0
    task_group: str = ""
    source: str = ""
    commit_id: str = ""
    rollout_id: str = ""
    author: str = ""
    email: str = ""
    subject: str = ""
    commit_time: int = 0
    file: str = ""
    line: int = 0
    group_line: int = 0
    group_lines: dict[str, int] = {}
    changed_by: ChangedBy | None = None
    token: AuthoredChange | None = None
    """Whose token the last change of the thing bore, or that of the job's version."""
    drift: JobDrift | None = None
    create_time: int = 0
    modify_time: int = 0
    allocations: int = 0
    origins: list[Blame] = []
    more_origins: int = 0
    """How many origins are left out."""
