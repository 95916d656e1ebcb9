"""The cache of parsed files: in memory, with a disk cache below it that outlasts restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from orchgit.gitops.parsing.desired import DesiredJob
from orchgit.gitops.parsing.disk_cache import DiskParseCache
from orchgit.model.job import Job

Depends = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What a file was parsed to. `depends` is what its functions looked at in the tree, and what
    was there (see `TreeFiles`). `is_cacheable` is false where the same file may be parsed otherwise
    the next time, as after a time-out. Not `is_job_file`: nothing in the file looks like a job."""

    desired: DesiredJob | None
    problems: tuple[str, ...]
    depends: Depends
    is_cacheable: bool = True
    is_job_file: bool = True


class _Record(msgspec.Struct, array_like=True, gc=False):
    """A job as the disk cache stores it. `content_id` is empty in records of an earlier version."""

    job: Job
    path: str
    line: int
    blob_id: str
    depends: tuple[tuple[str, str], ...]
    content_id: str = ""
    group_lines: dict[str, int] = {}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Record)


@dataclass(slots=True)
class ParseCache:
    """Caches outcomes by what they depend on. `disk` keeps jobs across restarts, and the outcomes
    that memory no longer holds."""

    disk: DiskParseCache | None = None
    min_files: int = 1_000
    outcomes: dict[str, FileOutcome] = field(default_factory=dict)

    def put(self, key: str, outcome: FileOutcome) -> None:
        """Caches an outcome in memory."""
        self.outcomes[key] = outcome

    def trim(self, used: Sequence[str]) -> None:
        """Drops the oldest outcomes beside those of the commit that uses `used`: it may leave as
        many others as the commit has files, and `min_files`. It drops half of them at once, so that
        a commit costs what it changed."""
        others = max(self.min_files, len(used))
        if len(self.outcomes) <= len(used) + others:
            return
        in_use = {key: self.outcomes[key] for key in used if key in self.outcomes}
        left = [each for each in self.outcomes.items() if each[0] not in in_use][-others // 2 :]
        self.outcomes = {**dict(left), **in_use}

    def load(self, keys: Sequence[str]) -> None:
        """Loads from disk what is cached of the keys that are not in memory."""
        missing = [key for key in keys if key not in self.outcomes]
        if self.disk is None or not missing:
            return
        for key, body in self.disk.get(missing).items():
            outcome = _from_bytes(body)
            if outcome is not None:
                self.put(key, outcome)

    def save(self, fresh: Mapping[str, FileOutcome]) -> None:
        """Writes the jobs just parsed to disk. Problems are not written: there are few, and some
        are of limits that may be higher after the next start."""
        if self.disk is not None:
            records = {key: _to_bytes(each) for key, each in fresh.items() if each.desired}
            if records:
                self.disk.put(records)


def _to_bytes(outcome: FileOutcome) -> bytes:
    desired = outcome.desired
    assert desired is not None
    return _ENCODER.encode(
        _Record(
            desired.job,
            desired.path,
            desired.line,
            desired.blob_id,
            outcome.depends,
            desired.content_id,
            dict(desired.group_lines),
        )
    )


def _from_bytes(body: bytes) -> FileOutcome | None:
    """Returns None for a record that this version of the program does not understand."""
    try:
        record = _DECODER.decode(body)
    except msgspec.DecodeError:
        return None
    desired = DesiredJob(
        record.job,
        record.path,
        record.line,
        record.blob_id,
        record.content_id,
        record.group_lines,
    )
    return FileOutcome(desired, (), record.depends)
