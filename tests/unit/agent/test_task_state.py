"""The table of a task's moves."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent.tasks import task_state
from agent.tasks.task_state import (
    DEAD,
    MAX_EVENTS,
    PENDING,
    TRANSITIONS,
    TaskEventType,
    apply,
    event,
)
from orchgit.errors import InvariantError
from orchgit.model.allocation import TaskState


def after(*happened: TaskEventType) -> TaskState:
    state = TaskState()
    for number, each in enumerate(happened):
        state = apply(state, event(each, number * 10**9))
    return state


def test_state_has_times_and_count_of_restarts() -> None:
    state = after(
        TaskEventType.STARTED,
        TaskEventType.TERMINATED,
        TaskEventType.RESTARTING,
        TaskEventType.STARTED,
    )
    assert (state.state, state.restarts) == ("running", 1)
    assert state.started_at is not None
    assert state.started_at.second == 3
    assert state.finished_at is None


def test_unlisted_move_raises_with_the_history() -> None:
    with pytest.raises(InvariantError, match=r"from 'dead' by 'Started': .*Kill"):
        apply(after(TaskEventType.STARTED, TaskEventType.KILLED), event(TaskEventType.STARTED, 5))


def test_failing_event_makes_the_task_failed_until_it_is_revived() -> None:
    state = apply(TaskState(), event(TaskEventType.NOT_RESTARTING, 1, fails_task=True))
    assert (state.state, state.failed, state.is_successful) == ("dead", True, False)
    revived = apply(state, event(TaskEventType.RESTART_REQUESTED, 2))
    assert (revived.state, revived.failed, revived.finished_at) == ("pending", False, None)


class Moves(RuleBasedStateMachine):
    """Any sequence of listed moves keeps the state's promises; any other raises."""

    def __init__(self) -> None:
        super().__init__()
        self.state = TaskState()
        self.now_ns = 0
        self.restarts = 0

    @rule(happened=st.sampled_from(list(TaskEventType)))
    def happen(self, happened: TaskEventType) -> None:
        self.now_ns += 10**9
        entry = event(happened, self.now_ns)
        if (self.state.state, happened) not in TRANSITIONS:
            with pytest.raises(InvariantError):
                apply(self.state, entry)
            return
        self.restarts += happened is TaskEventType.RESTARTING
        self.state = apply(self.state, entry)

    @invariant()
    def promises_hold(self) -> None:
        state = self.state
        assert state.state in (PENDING, task_state.RUNNING, DEAD)
        assert len(state.events) <= MAX_EVENTS
        assert state.restarts == self.restarts
        assert (state.finished_at is not None) == (state.state == DEAD) or state.state == PENDING
        if state.state == task_state.RUNNING:
            assert state.started_at is not None


Moves.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestMoves = Moves.TestCase
