"""Stubs of jobs as encoded JSON, encoded again only when the job or its summary has changed.

A list of 500 jobs, one of which has changed, is read 4 times as fast as with all of them decoded
and encoded (10,000 jobs: 6 times).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from orchgit.api.shapes import nomad_json
from orchgit.api.shapes.stubs import job_stub
from orchgit.state.snapshot import Snapshot

MAX_BYTES = 32 << 20


class _Key(NamedTuple):
    namespace: str
    job_id: str
    with_meta: bool


class _Encoded(NamedTuple):
    state: tuple[int, int]
    """(restored index of the state, index at which the job or its summary changed last)."""
    stub: msgspec.Raw


class JobStubs:
    """May be asked by several threads at once. Holds at most `max_bytes` of stubs; one too many
    empties it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._encoded: dict[_Key, _Encoded] = {}
        self.size_bytes = 0

    def of(
        self, snapshot: Snapshot, keys: Sequence[tuple[str, str]], with_meta: bool
    ) -> list[msgspec.Raw]:
        """Returns the stubs of the jobs (namespace, id) that are registered, in the order of
        `keys`.

        A job with children is encoded each time: its summary counts them, and they change without
        it.
        """
        restored = snapshot.meta.restored_index()
        stubs: dict[tuple[str, str], msgspec.Raw | None] = {}
        states: dict[tuple[str, str], tuple[int, int]] = {}
        for namespace, job_id, changed, has_children in snapshot.jobs.last_changes(keys):
            key, state = (namespace, job_id), (restored, changed)
            known = None if has_children else self._encoded.get(_Key(*key, with_meta))
            stubs[key] = known.stub if known is not None and known.state == state else None
            if not has_children:
                states[key] = state
        missing = [key for key, stub in stubs.items() if stub is None]
        for key, job in snapshot.jobs.get_many(missing).items():
            summary = snapshot.job_summaries.get(*key)
            stub = msgspec.Raw(nomad_json.encode(job_stub(job, summary, with_meta)))
            stubs[key] = stub
            if key in states:
                self._keep(_Key(*key, with_meta), _Encoded(states[key], stub))
        return [stub for stub in stubs.values() if stub is not None]

    def _keep(self, key: _Key, encoded: _Encoded) -> None:
        with self._lock:
            earlier = self._encoded.pop(key, None)
            if earlier is not None:
                self.size_bytes -= len(memoryview(earlier.stub))
            size = len(memoryview(encoded.stub))
            if self.size_bytes + size > self._max_bytes:
                self._encoded.clear()
                self.size_bytes = 0
            if size <= self._max_bytes:
                self._encoded[key] = encoded
                self.size_bytes += size
