"""The restart policy."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tasks.restarts import (
    NO_RESTARTS,
    NOT_NEEDED,
    UNRECOVERABLE,
    AttemptEnd,
    RestartHistory,
    decide,
)
from orchgit.model.task import RestartPolicy

S = 10**9
FAILED = AttemptEnd(successful=False)


def policy(**fields: object) -> RestartPolicy:
    return RestartPolicy(**{"attempts": 2, "interval_ns": 100 * S, "delay_ns": 10 * S, **fields})  # type: ignore[arg-type]


def decisions(rule: RestartPolicy, times_s: list[int], ended: AttemptEnd = FAILED) -> list[bool]:
    past, found = RestartHistory(), []
    for time_s in times_s:
        decision, past = decide(
            rule, past, ended, restart_on_success=True, now_ns=time_s * S, seed="a"
        )
        found.append(decision.restart)
    return found


def test_attempts_within_the_interval() -> None:
    assert decisions(policy(), [0, 1, 2]) == [True, True, False]


def test_new_interval_begins_again() -> None:
    assert decisions(policy(), [0, 1, 102, 103, 104]) == [True, True, True, True, False]


def test_success_ends_a_batch_task_and_restarts_a_service() -> None:
    good = AttemptEnd(successful=True)
    decision, past = decide(
        policy(), RestartHistory(), good, restart_on_success=False, now_ns=0, seed="a"
    )
    assert (decision.restart, decision.reason, decision.failed) == (False, NOT_NEEDED, False)
    assert past == RestartHistory()
    assert decisions(policy(), [0], good) == [True]


def test_start_that_can_never_work_is_not_repeated() -> None:
    ended = AttemptEnd(successful=False, start_error="no such image", recoverable=False)
    decision, _ = decide(
        policy(), RestartHistory(), ended, restart_on_success=True, now_ns=0, seed="a"
    )
    assert (decision.restart, decision.reason, decision.failed) == (False, UNRECOVERABLE, True)


def test_policy_without_attempts_restarts_nothing() -> None:
    decision, _ = decide(
        policy(attempts=0), RestartHistory(), FAILED, restart_on_success=True, now_ns=0, seed="a"
    )
    assert (decision.restart, decision.reason) == (False, NO_RESTARTS)


def test_mode_delay_waits_for_the_next_interval() -> None:
    rule = policy(attempts=1, mode="delay")
    past = RestartHistory()
    for now_s in (0, 5):
        decision, past = decide(
            rule, past, FAILED, restart_on_success=True, now_ns=now_s * S, seed="a"
        )
    assert decision.restart
    assert 95 * S <= decision.delay_ns <= 95 * S + 2.5 * S


@settings(max_examples=50, deadline=None)
@given(
    attempts=st.integers(0, 5),
    interval_s=st.integers(1, 50),
    delay_s=st.integers(0, 10),
    gaps=st.lists(st.integers(0, 60), max_size=30),
    seed=st.text(max_size=5),
)
def test_never_more_attempts_than_the_policy_allows(
    attempts: int, interval_s: int, delay_s: int, gaps: list[int], seed: str
) -> None:
    rule = policy(attempts=attempts, interval_ns=interval_s * S, delay_ns=delay_s * S)
    past, now_s, windows = RestartHistory(), 0, {-1: 0}
    for gap in gaps:
        now_s += gap
        decision, past = decide(
            rule, past, FAILED, restart_on_success=True, now_ns=now_s * S, seed=seed
        )
        if not decision.restart:
            assert past.count == (attempts + 1 if attempts else 0)
            break
        assert delay_s * S <= decision.delay_ns <= delay_s * S * 1.25
        windows[past.window_start_ns] = windows.get(past.window_start_ns, 0) + 1
    assert max(windows.values()) <= attempts
