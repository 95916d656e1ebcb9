"""What servers tell of themselves."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.server import ServerRecord
from orchgit.replication.commands.entry import Entry


class PutServer(Entry, tag="put-server", kw_only=True):
    """A server's own record, or that of one which joins. Refused with another cluster key."""

    server: ServerRecord


class DeleteServer(Entry, tag="delete-server", kw_only=True):
    """Deleting what is not there is no error."""

    address: str


class SetClusterKeyCheck(Entry, tag="set-cluster-key-check", kw_only=True):
    """Proposed by the leader; a cluster that has one keeps it."""

    check: str


class SetServerStatus(Entry, tag="set-server-status", kw_only=True):
    """The leader hears of a server again, or no more. Of one without a record: nothing."""

    since: ClassVar[int] = 2

    address: str
    status: str


ServerCommand = PutServer | DeleteServer | SetClusterKeyCheck | SetServerStatus
