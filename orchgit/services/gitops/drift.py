"""Writes to the log which jobs differ from what the applied commits of their sources want."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.drift import JobDrift
from orchgit.replication.commands.drift import DriftNote, RecordDrift
from orchgit.services.context import UseCaseContext

MAX_DRIFTS_PER_ENTRY = 500


async def record_drift(
    context: UseCaseContext,
    put: Sequence[JobDrift],
    clear: Sequence[tuple[str, str]],
    as_of: int,
) -> list[tuple[str, str]]:
    """Stores the jobs that have drifted; `clear` are (namespace, job id) of those that no longer
    have. `as_of` is the index of the snapshot that says so. Returns the jobs whose drift was
    written after it, which stay as they are recorded.

    Raises NotUnderstoodError while a server of an earlier version is a member.
    """
    passed_over: list[tuple[str, str]] = []
    most = max(len(put), len(clear))
    for first in range(0, most, MAX_DRIFTS_PER_ENTRY):
        last = first + MAX_DRIFTS_PER_ENTRY
        entry = RecordDrift(
            now_ns=context.now_ns(),
            as_of=as_of,
            put=list(put[first:last]),
            clear=list(clear[first:last]),
        )
        passed_over += (await context.propose(entry)).result or ()
    return passed_over


async def note_drift(context: UseCaseContext, notes: Sequence[DriftNote]) -> None:
    """Stores why jobs that have drifted are neither healed nor adopted."""
    for first in range(0, len(notes), MAX_DRIFTS_PER_ENTRY):
        some = list(notes[first : first + MAX_DRIFTS_PER_ENTRY])
        await context.propose(RecordDrift(now_ns=context.now_ns(), notes=some))
