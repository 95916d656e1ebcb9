"""Heals or adopts jobs that were changed by hand, as their sources' policies say: one loop on the
leader.

Nothing is corrected while the source is paused or a rollout of it is under way, and no job that
runs once is run again. The log records why a job is not corrected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from orchgit.errors import OrchgitError
from orchgit.gitops.commits.release import release_command
from orchgit.gitops.drift.comparison import AUTO_REVERT, SETTINGS
from orchgit.gitops.drift.healer import TRIGGER, DeniedNowError
from orchgit.gitops.drift.schedule import CorrectionSchedule
from orchgit.gitops.parsing.desired import JobKey
from orchgit.gitops.rollouts.waiting import unapplied_jobs
from orchgit.model.base import NS_PER_S
from orchgit.model.drift import DriftKind, JobDrift
from orchgit.model.job import Job
from orchgit.model.ownership import runs_once
from orchgit.model.rollout import Rollout
from orchgit.model.source import DriftAction, Source, SourceKind
from orchgit.replication.commands.drift import DriftNote
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.drift import note_drift
from orchgit.wait_first import wait_first

_log = structlog.get_logger(component="gitops")

_TABLES = ("drifted_jobs", "rollouts", "sources")
_IDLE_S = 300.0
_RETRY_S = 1.0
_LOOK_AGAIN_S = 300.0
_TOGETHER_S = 0.25
_MAX_NOTE = 500

Notes = Mapping[JobKey, str]
"""Why jobs were not corrected."""


Correction = Callable[[str, Sequence[JobDrift]], Awaitable[Notes]]
"""Heals or adopts jobs of the source of that name. Returns why some of them were not; raises
OrchgitError if none was."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What a snapshot shows. `drifts` are those that may be corrected, `notes` say why others may
    not, and `sources` are the policies."""

    index: int
    sources: Mapping[str, Source]
    drifts: Mapping[JobKey, JobDrift]
    notes: Sequence[DriftNote]


class DriftCorrector:
    """Corrects jobs while this server leads."""

    def __init__(self, context: UseCaseContext, heal: Correction, adopt: Correction) -> None:
        self._context = context
        self._corrections = {DriftAction.HEAL.value: heal, DriftAction.ADOPT.value: adopt}
        self._schedule = CorrectionSchedule()

    async def run(self) -> None:
        """Runs until cancelled."""
        self._schedule = CorrectionSchedule()
        clock = self._context.clock
        while True:
            try:
                work = self._work()
                await self._note(work.notes)
                await self._correct(work)
            except OrchgitError as error:
                _log.warning("cannot correct drift", error=str(error))
                await clock.sleep(_RETRY_S)
                continue
            except Exception:  # noqa: BLE001 - one bad round must not end the loop
                _log.exception("a round of the drift corrector failed")
                await clock.sleep(_IDLE_S)
                continue
            next_s = self._schedule.next_s()
            wait_s = _IDLE_S if next_s is None else max(0.0, next_s - clock.monotonic_s())
            tables = _TABLES if work.sources else ("sources",)
            changed = self._context.state.store.watch.wait(tables, work.index, 2 * _IDLE_S)
            async with wait_first(changed, clock.sleep(wait_s)):
                pass

    def _work(self) -> _Work:
        with self._context.snapshot() as snapshot:
            sources = {
                each.name: each
                for each in snapshot.sources.all()
                if each.drift.action in self._corrections and not each.paused
            }
            drifts: dict[JobKey, JobDrift] = {}
            notes: list[DriftNote] = []
            for name, source in sources.items():
                found = snapshot.drifted_jobs.all(name)
                busy = busy_sources(snapshot.rollouts.active(name) if found else ())
                for drift in found:
                    key = (drift.namespace, drift.job_id)
                    why = why_left(source, drift, snapshot.jobs.get(*key))
                    if why and why != drift.note:
                        notes.append(DriftNote(*key, why))
                    elif not why and name not in busy:
                        drifts[key] = drift
            return _Work(snapshot.index, sources, drifts, notes)

    async def _correct(self, work: _Work) -> None:
        """Corrects the jobs whose time has come, those of one source together."""
        delays_s = {
            key: work.sources[drift.source].drift.delay_ns / NS_PER_S
            for key, drift in work.drifts.items()
        }
        now_s = self._context.clock.monotonic_s()
        self._schedule.observe(delays_s, now_s)
        by_source: dict[str, list[JobDrift]] = {}
        # Jobs that were changed soon after each other are corrected in one rollout.
        due = self._schedule.due(now_s) and self._schedule.due(now_s + _TOGETHER_S)
        for key in sorted(due):
            by_source.setdefault(work.drifts[key].source, []).append(work.drifts[key])
        for name, drifts in by_source.items():
            keys = [(each.namespace, each.job_id) for each in drifts]
            correction = self._corrections[work.sources[name].drift.action]
            denied: DeniedNowError | None = None
            try:
                notes = await correction(name, drifts)
            except DeniedNowError as error:
                notes, denied = dict.fromkeys(keys, str(error)), error
            except OrchgitError as error:
                _log.warning("cannot correct drift", source=name, error=str(error))
                notes = dict.fromkeys(keys, str(error))
            for key in keys:
                now_s = self._context.clock.monotonic_s()
                if denied is None:
                    self._schedule.attempted(key, delays_s[key], now_s)
                else:  # the window may be changed before it ends
                    left_s = (denied.until_ns - self._context.now_ns()) / NS_PER_S
                    wait_s = min(max(left_s, _RETRY_S), _LOOK_AGAIN_S)
                    self._schedule.postpone(key, now_s + wait_s)
            await self._note(
                [
                    DriftNote(*key, note[:_MAX_NOTE])
                    for key, note in notes.items()
                    if work.drifts[key].note != note[:_MAX_NOTE]
                ]
            )

    async def _note(self, notes: Sequence[DriftNote]) -> None:
        if notes:
            await note_drift(self._context, notes)


def busy_sources(active: Iterable[Rollout]) -> set[str]:
    """Returns the sources with a rollout under way, which a correction would replace: its health
    gate and its stages are about the source's newest rollout. A commit that waits for a person or a
    window is not applied, and holds nothing up. Pure."""
    return {
        rollout.source
        for rollout in active
        if rollout.was_applied and (rollout.trigger != TRIGGER.kind or unapplied_jobs(rollout))
    }


def why_left(source: Source, drift: JobDrift, job: Job | None) -> str:
    """Returns why a job is neither healed nor adopted, whatever is tried, or ''. Pure."""
    adopts = source.drift.action == DriftAction.ADOPT
    if drift.changed_via == AUTO_REVERT:
        return "left as it is: the applied commit's version failed, and the version before it runs"
    if not adopts:
        if job is not None and runs_once(job):
            return (
                "not healed: it would run again; "
                f"`orchgit source sync {source.name} -rerun {drift.job_id}` does that"
            )
        return ""
    if drift.changed_via == SETTINGS:
        return (
            "not adopted: the source's settings changed what the file means; a commit applies that"
        )
    release = release_command((drift.namespace, drift.job_id))
    if drift.kind in (DriftKind.STOPPED, DriftKind.MISSING):
        return (
            "not adopted: no job file says that a job is stopped; remove its file, or free the job "
            f"with `{release}`"
        )
    if drift.kind == DriftKind.WITHOUT_FILE:
        return f"not adopted: it has no file to edit; add one, or free the job with `{release}`"
    if source.kind != SourceKind.BUILTIN:
        return (
            "not adopted: its repository is not one of this cluster's; "
            f"`orchgit source drift {source.name} -patch` makes a patch of it"
        )
    return ""
