"""Pauses and resumes sources, and records who did so, why and until when."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import ConflictError, InvalidInputError, NotFoundError, NotUnderstoodError
from orchgit.model.base import NS_PER_S, datetime_of_ns
from orchgit.model.source import PauseRecord, Source
from orchgit.printable import printable
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.sources import MAX_DURATION_NS, change_source, put_source

MAX_NAME_LENGTH = 100
MAX_REASON_LENGTH = 500


async def pause_source(
    context: UseCaseContext, name: str, by: str = "", reason: str = "", for_ns: int = 0
) -> int:
    """Pauses a source; with `for_ns` the leader resumes it by itself after that time.

    Works in the middle of an upgrade too, when who and why cannot be stored yet. Raises
    InvalidInputError for a name or reason that cannot be stored, and NotFoundError.
    """
    if for_ns and not NS_PER_S <= for_ns <= MAX_DURATION_NS:
        raise InvalidInputError(f'cannot pause source "{name}": pause it for 1s to 720h')
    until_ns = context.now_ns() + for_ns if for_ns else 0
    return await _set_paused(context, name, True, _record(context, name, by, reason, until_ns))


async def resume_source(context: UseCaseContext, name: str, by: str = "", reason: str = "") -> int:
    """Resumes a source, as `pause_source` pauses it."""
    return await _set_paused(context, name, False, _record(context, name, by, reason))


async def resume_when_due(context: UseCaseContext, source: Source) -> bool:
    """Resumes a source whose pause has ended. Returns whether it was resumed: not if a person
    paused it anew, or resumed it, meanwhile."""
    if not is_pause_over(source, context.now_ns()):
        return False
    record = PauseRecord(reason="the pause was over", at_ns=context.now_ns())

    def resumed(known: Source) -> Source:
        if not known.paused or known.pause != source.pause:
            raise ConflictError(f'cannot resume source "{known.name}": it was changed meanwhile')
        return replace(known, paused=False, pause=record)

    try:
        await change_source(context, source.name, resumed)
    except ConflictError:
        return False
    return True


def is_pause_over(source: Source, now_ns: int) -> bool:
    """Returns whether the source is still paused though its pause has ended."""
    return source.paused and 0 < source.pause.until_ns <= now_ns


def pause_text(source: Source) -> str:
    """Returns who paused a source, when, until when and why: `paused by ada at 2026-11-22 19:30
    UTC, until 21:30 UTC: the database moves`."""
    record = source.pause
    text = "paused"
    if record.by:
        text += f" by {printable(record.by)}"
    if record.at_ns:
        text += f" at {datetime_of_ns(record.at_ns):%Y-%m-%d %H:%M} UTC"
    if record.until_ns:
        text += f", until {datetime_of_ns(record.until_ns):%Y-%m-%d %H:%M} UTC"
    if record.reason:
        text += f": {printable(record.reason)}"
    return text


def _record(
    context: UseCaseContext, name: str, by: str, reason: str, until_ns: int = 0
) -> PauseRecord:
    limits = (("name", by, MAX_NAME_LENGTH), ("reason", reason, MAX_REASON_LENGTH))
    for what, text, limit in limits:
        if len(text) > limit:
            raise InvalidInputError(
                f'cannot pause or resume source "{name}": the {what} is longer than {limit} '
                "characters"
            )
        if "\n" in text or printable(text) != text:
            raise InvalidInputError(
                f'cannot pause or resume source "{name}": the {what} is one line without control '
                "characters"
            )
    return PauseRecord(by=by, reason=reason, at_ns=context.now_ns(), until_ns=until_ns)


async def _set_paused(context: UseCaseContext, name: str, paused: bool, record: PauseRecord) -> int:
    def change(source: Source) -> Source:
        return replace(source, paused=paused, pause=record)

    try:
        return await change_source(context, name, change)
    except NotUnderstoodError:
        with context.snapshot() as snapshot:
            source = snapshot.sources.get(name)
        if source is None:
            raise NotFoundError(
                f'cannot find source "{name}"; `orchgit source list` shows them'
            ) from None
        return await put_source(context, change(source))
