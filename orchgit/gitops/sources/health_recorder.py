"""Records in the log when the health of a source becomes another: one loop on the leader.

The health follows from the state and the leader's memory. That it changed is an event, for those
who are to be told, and the time since when it holds, which outlasts the leader.
"""

from __future__ import annotations

import asyncio

import structlog

from orchgit.errors import NotUnderstoodError, OrchgitError
from orchgit.gitops.sources.status_reader import SourceStatusReader
from orchgit.model.source_health import SourceHealthChange
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.source_health import record_source_health

_TABLES = (
    *("sources", "rollouts", "jobs", "allocations", "deployments", "evaluations"),
    *("held_versions", "drifted_jobs"),
)
_FIRST_S = 5.0
"""How long after a server became the leader the first look is."""
_PAUSE_S = 1.0
"""How long after a change the next look is: what lasts no longer is not recorded."""
_SHARE = 9
"""A look is followed by a pause that is this many times as long."""
_IDLE_S = 300.0
_RETRY_S = 1.0
_UPGRADE_RETRY_S = 30.0
_MAX_REASONS = 5

_log = structlog.get_logger(component="gitops")


class HealthRecorder:
    """Compares the health of all sources with what is recorded, while this server leads."""

    def __init__(self, context: UseCaseContext, statuses: SourceStatusReader) -> None:
        self._context = context
        self._statuses = statuses

    async def run(self) -> None:
        """Runs until cancelled."""
        clock, watch = self._context.clock, self._context.state.store.watch
        # At first the sources have to be checked, and what was missed can wait.
        await clock.sleep(_FIRST_S)
        while True:
            began_s = clock.monotonic_s()
            try:
                index, changes = await asyncio.to_thread(self._changes)
                if changes:
                    await record_source_health(self._context, changes)
            except Exception as error:  # noqa: BLE001 - one bad look must not end the loop
                if isinstance(error, OrchgitError):
                    _log.warning("cannot record the health of sources", error=str(error))
                else:
                    _log.exception("a look at the health of sources failed")
                not_yet = isinstance(error, NotUnderstoodError)
                await clock.sleep(_UPGRADE_RETRY_S if not_yet else _RETRY_S)
                continue
            spent_s = clock.monotonic_s() - began_s
            await watch.wait(_TABLES, index, _IDLE_S)
            await clock.sleep(max(_PAUSE_S, _SHARE * spent_s))

    def _changes(self) -> tuple[int, list[SourceHealthChange]]:
        """Returns the index of a snapshot, and the sources whose health is not the recorded one."""
        with self._context.snapshot() as snapshot:
            recorded = {each.source: each.status for each in snapshot.source_health.all()}
            found = [
                SourceHealthChange(
                    source=report.source.name,
                    status=report.health.status,
                    reasons=report.health.reasons[:_MAX_REASONS],
                )
                for report in self._statuses.reports(snapshot)
                if recorded.get(report.source.name) != report.health.status
            ]
            return snapshot.index, found
