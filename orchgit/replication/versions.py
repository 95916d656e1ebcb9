"""Which version of the log's language knows which command, and whether all servers know it.

A server that meets an entry it does not know stops: it cannot pass it over. So during a rolling
upgrade no command is proposed before every member has said that it understands it (the version in
which it came is `Entry.since`). A command that gets a new field with an effect is a new command.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from orchgit.errors import NotUnderstoodError
from orchgit.model.base import Model
from orchgit.model.job import JobOrigin
from orchgit.model.rollout import Rollout, RolloutJob
from orchgit.model.server import ServerRecord
from orchgit.model.source import PrunePolicy, Source, SourceStatus
from orchgit.replication.commands.entry import Entry

T = TypeVar("T", bound=Model)

COMMAND_VERSION = 7
"""What this program understands: every version up to this one."""

FIRST_VERSION = 1
"""Understood by every program there ever was."""

FIELDS_SINCE_4: dict[type[Model], tuple[str, ...]] = {
    Source: (
        "drift",
        "exclude",
        "region",
        "tags",
        "repository",
        "ca_certificates",
        "pause",
        "depends_on",
        "gates",
        "policies",
    ),
    SourceStatus: ("error_kind", "error_since_ns", "last_success_ns"),
    Rollout: ("gates", "reason", "ref"),
    JobOrigin: ("group_lines",),
    RolloutJob: (
        "cause",
        "content_id",
        "stage",
        "waits_for",
        "must_complete",
        "applied_time_ns",
    ),
    PrunePolicy: ("wildcard", "claims"),
}
"""Fields that servers of version 3 would drop; all have defaults. Those of version 4 have no
`policies` either."""


def understands(kind: type[Entry], members: Iterable[str], servers: Iterable[ServerRecord]) -> bool:
    """Returns whether every member (raft addresses) understands this kind of command."""
    known = {one.address: one.command_version for one in servers}
    return all(known.get(one, FIRST_VERSION) >= kind.since for one in members)


def check_understood(
    command: Entry, members: Iterable[str], servers: Iterable[ServerRecord]
) -> None:
    """Raises NotUnderstoodError, which names the servers to upgrade, unless every member knows it.

    `members` are raft addresses; one without a record has not told its version yet, and counts as
    of the first.
    """
    version = command.since
    known = {one.address: one for one in servers}
    behind = [
        address
        for address in members
        if (known[address].command_version if address in known else FIRST_VERSION) < version
    ]
    if behind:
        names = ", ".join(_named(address, known.get(address)) for address in behind)
        raise NotUnderstoodError(
            f"cannot do this yet ({type(command).__name__}): {names} would not understand it; "
            "upgrade every server first (`orchgit server members -verbose` shows their versions)"
        )


def _named(address: str, server: ServerRecord | None) -> str:
    if server is None:
        return f"server {address}, which has not told its version"
    return f"server {server.name} ({address}, orchgit {server.build})"


def without_new_fields(value: T) -> T:
    """Returns the struct as a server of version 3 stores it: every later field has its default, in
    the structs of its fields too."""
    fields = {field.name: field for field in msgspec.structs.fields(value)}
    changed: dict[str, object] = {}
    for name, field in fields.items():
        inner = getattr(value, name)
        if name in FIELDS_SINCE_4[type(value)]:
            made = field.default_factory is not msgspec.NODEFAULT
            changed[name] = field.default_factory() if made else field.default
        elif type(inner) in FIELDS_SINCE_4:
            changed[name] = without_new_fields(inner)
    return msgspec.structs.replace(value, **changed)


def common_version(members: Iterable[str], servers: Iterable[ServerRecord]) -> int:
    """What all members understand; a server that joins has to understand as much."""
    known = {one.address: one.command_version for one in servers}
    return min((known.get(one, FIRST_VERSION) for one in members), default=FIRST_VERSION)
