"""No entry reaches a server that would stop at it."""

from __future__ import annotations

import msgspec
import pytest

from orchgit.errors import RefusedError
from orchgit.model.job import JobOrigin
from orchgit.model.operator import AutopilotConfig
from orchgit.model.rollout import Rollout, RolloutJob
from orchgit.model.server import ServerRecord
from orchgit.model.source import PrunePolicy, Source, SourceStatus
from orchgit.replication.apply.handlers import HANDLERS
from orchgit.replication.commands.entry import AuthoredEntry, Noop
from orchgit.replication.commands.settings import SetAutopilotConfig
from orchgit.replication.versions import (
    COMMAND_VERSION,
    FIELDS_SINCE_4,
    check_understood,
    common_version,
    without_new_fields,
)

NEW = SetAutopilotConfig(config=AutopilotConfig())
MEMBERS = ("a:1", "b:1")


def record(address: str, version: int) -> ServerRecord:
    return ServerRecord(address, name=f"server-{address}", build="0.9", command_version=version)


KINDS = [*HANDLERS, AuthoredEntry]


def test_newest_command_has_the_newest_version() -> None:
    assert max(kind.since for kind in KINDS) == COMMAND_VERSION


def test_version_1_is_not_changed_any_more() -> None:
    """A command that comes later belongs to a later version, or older servers stop at it."""
    assert sum(kind.since == 1 for kind in KINDS) == 46


def test_command_waits_for_the_last_member() -> None:
    servers = [record("a:1", 2), record("b:1", 1)]
    with pytest.raises(RefusedError, match=r"server server-b:1 \(b:1, orchgit 0.9\)"):
        check_understood(NEW, MEMBERS, servers)
    check_understood(Noop(), MEMBERS, servers)
    check_understood(NEW, MEMBERS, [record("a:1", 2), record("b:1", 3)])


def test_member_that_has_not_told_its_version_counts_as_old() -> None:
    with pytest.raises(RefusedError, match="b:1, which has not told its version"):
        check_understood(NEW, MEMBERS, [record("a:1", 2)])


def test_records_of_servers_that_are_no_members_do_not_count() -> None:
    servers = [record("a:1", 2), record("b:1", 2), record("gone:1", 1)]
    check_understood(NEW, MEMBERS, servers)
    assert common_version(MEMBERS, servers) == 2
    assert common_version((*MEMBERS, "new:1"), servers) == 1


FIELDS_OF_VERSION_3: dict[type[msgspec.Struct], str] = {
    Source: (
        "name namespace kind url ref paths variables var_files poll_interval_ns prune paused "
        "credential webhook_secret allow_rewind adopt rollout_deadline_ns status create_index "
        "modify_index"
    ),
    SourceStatus: (
        "applied_commit applied_rollout seen_commit last_error last_checked_ns quarantined "
        "remembers_jobs"
    ),
    Rollout: (
        "id source commit previous_commit reverts trigger pusher status status_description jobs "
        "problems plan_hash create_time_ns applied_time_ns finished_time_ns create_index "
        "modify_index"
    ),
    RolloutJob: (
        "namespace job_id action file line blob_id job_type job_version eval_id deployment_id "
        "status description desired_updates"
    ),
    PrunePolicy: "enabled max_share_percent",
}


@pytest.mark.parametrize("struct", FIELDS_OF_VERSION_3)
def test_every_later_field_is_left_out_for_servers_of_version_3(
    struct: type[msgspec.Struct],
) -> None:
    """A field that is missing in `FIELDS_SINCE_4` would differ between old and new servers."""
    now = {each.name for each in msgspec.structs.fields(struct)}
    assert now - set(FIELDS_SINCE_4[struct]) == set(FIELDS_OF_VERSION_3[struct].split())
    assert without_new_fields(struct()) == struct()


def test_origin_for_servers_of_version_3_has_no_lines_of_groups() -> None:
    origin = JobOrigin(source="demo", line=2, group_lines={"web": 7})
    assert without_new_fields(origin) == JobOrigin(source="demo", line=2)
