"""No entry reaches a server that would stop at it."""

from __future__ import annotations

import pytest

from orchgit.errors import RefusedError
from orchgit.model.operator import AutopilotConfig
from orchgit.model.server import ServerRecord
from orchgit.replication.apply.handlers import HANDLERS
from orchgit.replication.commands import Noop, SetAutopilotConfig
from orchgit.replication.versions import (
    COMMAND_VERSION,
    VERSION_OF,
    check_understood,
    common_version,
)

NEW = SetAutopilotConfig(config=AutopilotConfig())
MEMBERS = ("a:1", "b:1")


def record(address: str, version: int) -> ServerRecord:
    return ServerRecord(address, name=f"server-{address}", build="0.9", command_version=version)


def test_every_command_has_the_version_that_brought_it() -> None:
    assert set(VERSION_OF) == set(HANDLERS), "add the new command to the newest version's list"
    assert max(VERSION_OF.values()) == COMMAND_VERSION


def test_version_1_is_not_changed_any_more() -> None:
    """A command that comes later belongs to a later version, or older servers stop at it."""
    assert sum(version == 1 for version in VERSION_OF.values()) == 46


def test_a_command_waits_for_the_last_member() -> None:
    servers = [record("a:1", 2), record("b:1", 1)]
    with pytest.raises(RefusedError, match=r"server server-b:1 \(b:1, orchgit 0.9\)"):
        check_understood(NEW, MEMBERS, servers)
    check_understood(Noop(), MEMBERS, servers)
    check_understood(NEW, MEMBERS, [record("a:1", 2), record("b:1", 3)])


def test_a_member_that_has_not_told_its_version_counts_as_old() -> None:
    with pytest.raises(RefusedError, match="b:1, which has not told its version"):
        check_understood(NEW, MEMBERS, [record("a:1", 2)])


def test_records_of_servers_that_are_no_members_do_not_count() -> None:
    servers = [record("a:1", 2), record("b:1", 2), record("gone:1", 1)]
    check_understood(NEW, MEMBERS, servers)
    assert common_version(MEMBERS, servers) == 2
    assert common_version((*MEMBERS, "new:1"), servers) == 1
