"""Drift: a job that differs from what its source's applied commit wants."""

from __future__ import annotations

from enum import StrEnum

from orchgit.model.base import Model


class DriftKind(StrEnum):
    CHANGED = "changed"
    """The job is registered otherwise than its file says."""
    STOPPED = "stopped"
    MISSING = "missing"
    """The job was purged."""
    WITHOUT_FILE = "without_file"
    """The job runs and belongs to the source, and the applied commit has no file of it."""


class DriftField(Model):
    """One difference. `path` is dotted, such as `group.web.count`; `old` is what the file says and
    `new` what is registered, both shortened, empty if not set, and `(hidden)` for secrets."""

    path: str
    old: str = ""
    new: str = ""


class JobDrift(Model):
    """A job that differs from what the applied commit of its source wants.

    `changed_by` says who changed the job, in words, as far as it is known; `changed_via` is
    register, scale, revert, stop, purge, auto_revert, settings (the source's settings, or an
    upgrade, changed what the job's file means) or unknown. `fields` are the first
    differences, `more_fields` is how many are left out. `note` says why the job is not healed or
    adopted, where the source's policy asks for it.
    """

    namespace: str
    job_id: str
    source: str
    kind: str = DriftKind.CHANGED
    file: str = ""
    line: int = 0
    commit_id: str = ""
    """The applied commit, from which the job differs."""
    job_version: int = 0
    changed_by: str = ""
    changed_via: str = ""
    fields: list[DriftField] = []
    more_fields: int = 0
    since_ns: int = 0
    note: str = ""
    create_index: int = 0
    modify_index: int = 0

    @property
    def id(self) -> str:
        """Unique in the cluster: a namespace has no slash."""
        return f"{self.namespace}/{self.job_id}"
