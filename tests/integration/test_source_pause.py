"""Pausing sources: who, why and until when, and resuming by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchgit.clock import Clock
from orchgit.errors import InvalidInputError, NotFoundError
from orchgit.model.source import PauseRecord
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.pauses import (
    MAX_REASON_LENGTH,
    pause_source,
    pause_text,
    resume_source,
    resume_when_due,
)
from tests.support.earlier_members import with_member_of
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, with_demo

HOUR_NS = 3_600_000_000_000


class LaterClock:
    """The real clock, an hour or more ahead."""

    def __init__(self, clock: Clock, ahead_ns: int) -> None:
        self._clock = clock
        self._ahead_ns = ahead_ns
        self.sleep = clock.sleep
        self.monotonic_s = clock.monotonic_s

    def now_ns(self) -> int:
        return self._clock.now_ns() + self._ahead_ns


def test_push_to_a_paused_source_says_who_paused_it_and_why(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await pause_source(rig.context, "demo", "ada", "the database moves")
        work.commit({"a.hcl": batch_job("a")})
        answer = await work.push(rig.url("demo"))
        assert answer.returncode == 0, answer.output
        text = " ".join(answer.output.replace("remote:", "").split())
        assert "Source demo is paused by ada at " in text
        assert "UTC: the database moves. Its commits are applied after" in text
        assert rig.job("a") is None
        await resume_source(rig.context, "demo", "bob", "it has moved")
        await rig.until(lambda: rig.job("a") is not None)
        record = rig.source().pause
        assert (record.by, record.reason, record.until_ns) == ("bob", "it has moved", 0)

    with_demo(tmp_path, body)


def test_pause_for_a_time_ends_by_itself(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"a.hcl": batch_job("a")})
        await pause_source(rig.context, "demo", "ada", "lunch", for_ns=1_000_000_000)
        await work.push(rig.url("demo"))
        await rig.until(lambda: rig.job("a") is not None)
        source = rig.source()
        assert not source.paused
        assert source.pause.reason == "the pause was over"

    with_demo(tmp_path, body)


def test_pause_that_a_person_renewed_does_not_end_with_the_first_one(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await pause_source(rig.context, "demo", for_ns=HOUR_NS)
        first = rig.source()
        await pause_source(rig.context, "demo", "ada", "longer", for_ns=3 * HOUR_NS)
        clock = LaterClock(rig.context.clock, 2 * HOUR_NS)
        later = UseCaseContext(rig.state, clock, rig.context.ids)
        assert not await resume_when_due(later, first)
        assert not await resume_when_due(later, rig.source())
        assert rig.source().paused

    with_demo(tmp_path, body)


@pytest.mark.parametrize(
    ("by", "reason", "for_ns"),
    [
        ("ada", "x" * (MAX_REASON_LENGTH + 1), 0),
        ("a" * 101, "", 0),
        ("ada\x1b[31m", "", 0),
        ("ada", "two\nlines", 0),
        ("ada", "", 1),
        ("ada", "", -HOUR_NS),
        ("ada", "", 721 * HOUR_NS),
    ],
)
def test_pause_with_fields_that_cannot_be_stored_is_refused(
    tmp_path: Path, by: str, reason: str, for_ns: int
) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        with pytest.raises(InvalidInputError, match=r"^cannot pause"):
            await pause_source(rig.context, "demo", by, reason, for_ns)
        assert not rig.source().paused
        with pytest.raises(NotFoundError):
            await pause_source(rig.context, "other")

    with_demo(tmp_path, body)


def test_pause_text_leaves_out_what_is_not_known(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("demo", paused=True)
        assert pause_text(rig.source()) == "paused"

    with_demo(tmp_path, body)


def test_source_is_paused_and_resumed_in_the_middle_of_an_upgrade(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        upgrading = with_member_of(3, rig.context)
        await pause_source(upgrading, "demo", "ada", "who and why cannot be stored yet")
        assert (rig.source().paused, rig.source().pause) == (True, PauseRecord())
        await resume_source(upgrading, "demo", "ada")
        assert not rig.source().paused

    with_demo(tmp_path, body)
