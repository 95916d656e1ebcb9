"""Writes to the log which sources got another health."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.source_health import SourceHealthChange
from orchgit.replication.commands.gitops import RecordSourceHealth
from orchgit.services.context import UseCaseContext


async def record_source_health(
    context: UseCaseContext, changes: Sequence[SourceHealthChange]
) -> int:
    """Stores the health of sources; each that it changes is an event.

    Raises NotUnderstoodError while a server of an earlier version is a member.
    """
    entry = RecordSourceHealth(now_ns=context.now_ns(), changes=list(changes))
    return (await context.propose(entry)).index
