"""Keeping the status of jobs up to date while log entries are applied."""

from __future__ import annotations

from orchgit.state.entry import EntryContext
from orchgit.state.job_status import (
    StatusInputs,
    has_waiting_evaluations,
    implied_status,
    read_inputs,
)
from orchgit.state.tables.evaluations import EvaluationWrites
from orchgit.state.tables.jobs import JobWrites


class JobStatusUpdates:
    """Derives the status of the jobs that an entry touched, once, when the entry ends."""

    def __init__(self, entry: EntryContext, jobs: JobWrites, evaluations: EvaluationWrites) -> None:
        self._entry = entry
        self._jobs = jobs
        self._evaluations = evaluations
        self._touched: dict[tuple[str, str], bool] = {}
        """(namespace, job id) -> whether evaluations of the job were purged."""

    def begin_entry(self) -> None:
        self._touched.clear()

    def touch(self, namespace: str, job_id: str, evaluations_purged: bool = False) -> None:
        """Have the status of the job derived anew when the entry ends."""
        key = (namespace, job_id)
        self._touched[key] = self._touched.get(key, False) or evaluations_purged

    def end_entry(self) -> None:
        """Write the statuses that changed."""
        for key, evaluations_purged in self._touched.items():
            inputs, has_waiting = self._inputs(key)
            if inputs is None:
                continue
            status = implied_status(
                self._entry.connection, key, inputs, has_waiting, evaluations_purged
            )
            if status != inputs.stored:
                self._jobs.set_status(*key, status)

    def _inputs(self, key: tuple[str, str]) -> tuple[StatusInputs | None, bool]:
        """As `read_inputs`, by way of the cache."""
        cache = self._entry.cache.job_status_inputs
        inputs = cache.get(key)
        if inputs is None:
            inputs, has_waiting = read_inputs(self._entry.connection, *key)
            if inputs is not None:
                cache.put(key, inputs)
            return inputs, has_waiting
        if inputs.fixed or inputs.live:
            return inputs, False
        return inputs, self._evaluations.has_opened(*key) or has_waiting_evaluations(
            self._entry.connection, *key
        )
