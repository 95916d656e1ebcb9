"""Blocked evaluations: what lets them go, what makes them needless; no change is missed."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.control.evaluations.blocked import BlockedEvals
from orchgit.model.evaluation import EvalStatus, EvalTrigger, Evaluation
from tests.support.factories import make_id


def blocked(job: str = "web", snapshot: int = 100, **fields: object) -> Evaluation:
    made = Evaluation(
        id=make_id("000000e1"),
        job_id=job,
        status=EvalStatus.BLOCKED,
        snapshot_index=snapshot,
        create_index=snapshot,
        modify_index=snapshot,
        class_eligibility={"good": True, "bad": False},
    )
    return msgspec.structs.replace(made, **fields)


def ids(evaluations: list[Evaluation]) -> set[str]:
    return {evaluation.id for evaluation in evaluations}


def test_eligible_class_unblocks_and_ineligible_class_does_not() -> None:
    kept = BlockedEvals()
    waiting = blocked()
    assert kept.block(waiting) == []
    assert kept.unblock_class("bad", 101) == []
    assert ids(kept.unblock_class("good", 102)) == {waiting.id}
    assert kept.unblock_class("good", 103) == []


def test_unknown_class_unblocks() -> None:
    kept = BlockedEvals()
    waiting = blocked()
    kept.block(waiting)
    assert ids(kept.unblock_class("new", 101)) == {waiting.id}


def test_escaped_evaluation_is_unblocked_by_any_class() -> None:
    kept = BlockedEvals()
    waiting = blocked(escaped_computed_class=True, class_eligibility=None)
    kept.block(waiting)
    assert kept.stats().escaped == 1
    assert ids(kept.unblock_class("bad", 101)) == {waiting.id}


def test_evaluation_older_than_a_class_change_is_not_blocked() -> None:
    kept = BlockedEvals()
    kept.unblock_class("good", 150)
    late, current = blocked("late", 140), blocked("current", 160)
    assert kept.block(late) == [late]
    assert kept.block(current) == []


def test_evaluation_is_blocked_though_an_ineligible_class_changed() -> None:
    kept = BlockedEvals()
    kept.unblock_class("bad", 150)
    assert kept.block(blocked(snapshot=140)) == []


def test_system_evaluation_is_unblocked_by_its_node_only() -> None:
    kept = BlockedEvals()
    first = blocked(type="system", node_id="n1")
    second = blocked(type="system", node_id="n2")
    assert kept.block(first) + kept.block(second) == []
    assert kept.unblock_class("good", 101) == []
    assert ids(kept.unblock_node("n1", 102)) == {first.id}
    assert kept.block(blocked("other", 101, type="system", node_id="n1")) != []


def test_quota_change_unblocks_evaluations_of_that_quota() -> None:
    kept = BlockedEvals()
    waiting = blocked(quota_limit_reached="team")
    kept.block(waiting)
    assert kept.unblock_class("good", 101) == []
    assert kept.unblock_quota("other", 102) == []
    assert ids(kept.unblock_quota("team", 103)) == {waiting.id}
    assert kept.block(blocked("b", 102, quota_limit_reached="team")) != []


def test_newest_blocked_evaluation_of_a_job_is_kept_and_older_ones_canceled() -> None:
    kept = BlockedEvals()
    old, new, older = blocked(snapshot=100), blocked(snapshot=110), blocked(snapshot=90)
    for each in (old, new, older):
        assert kept.block(each) == []
    assert ids(kept.take_cancelable(10)) == {old.id, older.id}
    assert ids(kept.unblock_class("good", 111)) == {new.id}


def test_blocked_evaluations_of_an_untracked_job_become_cancelable() -> None:
    kept = BlockedEvals()
    service, node = blocked(), blocked(type="system", node_id="n1")
    kept.block(service)
    kept.block(node)
    kept.untrack(("default", "web"))
    assert ids(kept.take_cancelable(1)) | ids(kept.take_cancelable(1)) == {service.id, node.id}
    assert kept.stats().blocked == 0


def test_evaluations_blocked_by_rejected_plans_are_retried_periodically() -> None:
    kept = BlockedEvals()
    rejected = blocked("a", triggered_by=EvalTrigger.MAX_PLANS)
    kept.block(rejected)
    kept.block(blocked("b"))
    assert ids(kept.unblock_failed()) == {rejected.id}


def test_pruned_class_change_does_not_unblock() -> None:
    kept = BlockedEvals()
    kept.unblock_class("good", 150)
    kept.prune(151)
    assert kept.block(blocked(snapshot=140)) == []


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("block", "unblock", "untrack", "discard")),
            st.sampled_from(("a", "b", "c")),
            st.sampled_from(("good", "bad", "new")),
            st.integers(0, 3),
        ),
        max_size=40,
    )
)
def test_no_evaluation_is_lost_or_unblocked_twice(steps: list[tuple[str, str, str, int]]) -> None:
    kept = BlockedEvals()
    inside: dict[str, Evaluation] = {}
    gone: set[str] = set()

    def leave(evaluations: list[Evaluation]) -> None:
        for evaluation in evaluations:
            assert evaluation.id not in gone
            inside.pop(evaluation.id)
            gone.add(evaluation.id)

    for index, (action, job, computed_class, age) in enumerate(steps, start=100):
        if action == "block":
            made = blocked(job, index - age)
            inside[made.id] = made
            leave(kept.block(made))
        elif action == "unblock":
            leave(kept.unblock_class(computed_class, index))
        elif action == "untrack":
            kept.untrack(("default", job))
        elif inside:
            evaluation = inside.pop(next(iter(inside)))
            kept.discard(evaluation.id)
            gone.add(evaluation.id)
        stats = kept.stats()
        assert stats.blocked + stats.cancelable == len(inside)
        assert stats.blocked <= 3
    leave(kept.take_cancelable(100))
    leave(kept.unblock_class("good", 1000))
    assert not inside
