"""Whether a request has written anything: then no other server may be asked to do it again."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Writes:
    """Whether anything was written, or may have been, on behalf of one request."""

    any: bool = False


WRITES: ContextVar[Writes | None] = ContextVar("writes", default=None)
"""Set by who serves a request and would, if nothing was written yet, have another server do it."""


def note_write() -> None:
    writes = WRITES.get()
    if writes is not None:
        writes.any = True


def nothing_written() -> bool:
    """Whether the request is watched (`WRITES`) and certain to have written nothing yet."""
    writes = WRITES.get()
    return writes is not None and not writes.any
