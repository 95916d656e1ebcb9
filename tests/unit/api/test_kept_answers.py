"""Answers that are given again, and when they are not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchgit.api.kept_answers import KeptAnswer, KeptAnswers
from orchgit.state.changes import Changes
from orchgit.state.watch import Watch

TABLES = ("jobs",)


@dataclass
class StandInStore:
    """A store whose commits and publications the test decides."""

    watch: Watch = field(default_factory=lambda: Watch({"jobs": 5}, 10))
    visible_index: int = 10

    def commit(self, index: int) -> None:
        self.visible_index = index

    def publish(self, index: int, *tables: str) -> None:
        changes = Changes()
        for table in tables:
            changes.note(index, table, ())
        self.watch.publish(changes, index)

    def write(self, index: int, *tables: str) -> None:
        self.commit(index)
        self.publish(index, *tables)


def answer_of(kept: KeptAnswers, table_index: int = 5, body: bytes = b"[]") -> KeptAnswer:
    return KeptAnswer(TABLES, table_index, kept.before(), table_index, body)


def with_one_answer() -> tuple[StandInStore, KeptAnswers]:
    store = StandInStore()
    kept = KeptAnswers(lambda: store)
    kept.keep("list", answer_of(kept))
    return store, kept


def test_answer_is_given_again_while_other_tables_change() -> None:
    store, kept = with_one_answer()
    store.write(11, "nodes")
    assert kept.find("list") is not None
    assert kept.find("other list") is None


@pytest.mark.parametrize("table", ["jobs", "acl_tokens", "acl_policies", "acl_roles"])
def test_answer_is_not_given_after_a_change_of_its_table_or_of_access_rules(table: str) -> None:
    store, kept = with_one_answer()
    store.write(11, table)
    assert kept.find("list") is None


def test_answer_is_not_given_between_a_commit_and_its_publication() -> None:
    store, kept = with_one_answer()
    store.commit(11)
    assert kept.find("list") is None
    store.publish(11, "nodes")
    assert kept.find("list") is not None


def test_answer_is_not_given_after_the_state_was_replaced() -> None:
    store, kept = with_one_answer()
    store.watch.note_replaced()
    assert kept.find("list") is None


def test_least_used_answers_make_room() -> None:
    store = StandInStore()
    kept = KeptAnswers(lambda: store, max_bytes=4000)
    for name in ("a", "b"):
        kept.keep(name, answer_of(kept, body=b"x" * 1400))
    assert kept.find("a") is not None
    kept.keep("c", answer_of(kept, body=b"x" * 1400))
    assert [kept.find(name) is not None for name in "abc"] == [True, False, True]


def test_equal_reads_at_the_same_time_are_one_read() -> None:
    async def scenario() -> None:
        store = StandInStore()
        kept = KeptAnswers(lambda: store)
        reads, go_on = 0, asyncio.Event()

        async def read() -> KeptAnswer:
            nonlocal reads
            reads += 1
            await go_on.wait()
            return answer_of(kept)

        asked = [asyncio.ensure_future(kept.answer("list", read)) for _ in range(100)]
        await asyncio.sleep(0)
        asked[0].cancel()
        go_on.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert reads == 1
        assert isinstance(answers[0], asyncio.CancelledError)
        assert {answer.body for answer in answers[1:] if isinstance(answer, KeptAnswer)} == {b"[]"}

    asyncio.run(scenario())


def test_read_that_began_before_a_change_is_not_shared_with_later_requests() -> None:
    async def scenario() -> None:
        store = StandInStore()
        kept = KeptAnswers(lambda: store)
        go_on = asyncio.Event()

        async def early() -> KeptAnswer:
            await go_on.wait()
            return answer_of(kept, 5, b"early")

        async def late() -> KeptAnswer:
            return answer_of(kept, 11, b"late")

        first = asyncio.ensure_future(kept.answer("list", early))
        await asyncio.sleep(0)
        store.write(11, "jobs")
        assert (await kept.answer("list", late)).body == b"late"
        go_on.set()
        assert (await first).body == b"early"
        found = kept.find("list")
        assert found is None or found.body == b"late"

    asyncio.run(scenario())


def test_failed_read_fails_those_who_share_it_and_is_not_kept() -> None:
    async def scenario() -> None:
        store = StandInStore()
        kept = KeptAnswers(lambda: store)

        async def read() -> KeptAnswer:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await kept.answer("list", read)

        async def works() -> KeptAnswer:
            return answer_of(kept)

        assert (await kept.answer("list", works)).body == b"[]"

    asyncio.run(scenario())


STEPS = st.lists(st.sampled_from(["commit", "publish", "read", "ask"]), max_size=40)


@given(STEPS)
def test_nobody_sees_an_older_state_after_a_newer_one(steps: list[str]) -> None:
    """Reads of other routes see what is committed, and keep nothing here; whoever asks saw all
    answers before."""
    store = StandInStore()
    store.publish(10, "jobs")
    kept = KeptAnswers(lambda: store)
    newest_seen, published = 0, 10
    for step in steps:
        if step == "commit" and store.visible_index == published:
            store.commit(published + 1)
        elif step == "publish" and store.visible_index > published:
            published = store.visible_index
            store.publish(published, "jobs")
        elif step in ("ask", "read"):
            found = kept.find("list") if step == "ask" else None
            if found is None:
                found = answer_of(kept, store.visible_index)
                if step == "ask":
                    kept.keep("list", found)
            assert found.table_index >= newest_seen
            newest_seen = found.table_index
