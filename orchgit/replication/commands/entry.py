"""What every log entry has, and the kinds that belong to no area."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.author import Author
from orchgit.model.base import Model


class Entry(Model, tag_field="Kind"):
    """Base of all commands.

    A command carries everything its effect depends on: ids, times and seeds are made by the
    proposer, so that applying it is deterministic (invariant 2). Fields named `expected_...` are
    compare-and-set conditions: when one does not hold, the entry changes nothing and its proposer
    gets a ConflictError.
    """

    since: ClassVar[int] = 1
    """The version of the log's language that brought this kind (`orchgit.replication.versions`)."""

    now_ns: int = 0
    """The proposer's wall clock."""


class Noop(Entry, tag="noop", kw_only=True):
    """What a new leader commits first."""


class AuthoredEntry(Entry, tag="authored", kw_only=True):
    """Another entry, whose author is recorded with what it changes."""

    since: ClassVar[int] = 5

    author: Author
    entry: bytes
    """As `codec.encode` makes it; never an authored one itself."""
