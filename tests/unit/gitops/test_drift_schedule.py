"""When drifted jobs are healed: after the delay, together, and ever more rarely."""

from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.gitops.drift.schedule import CALM_S, MAX_PAUSE_S, CorrectionSchedule

WEB, API = ("default", "web"), ("default", "api")


def test_job_is_due_after_its_delay_and_not_once_it_is_as_wanted() -> None:
    schedule = CorrectionSchedule()
    schedule.observe({WEB: 5.0}, 100.0)
    assert schedule.due(104.9) == set()
    assert schedule.due(105.0) == {WEB}
    assert schedule.next_s() == 105.0
    schedule.observe({}, 104.0)
    assert schedule.due(200.0) == set()
    assert schedule.next_s() is None


def test_job_that_is_changed_back_again_and_again_is_healed_ever_more_rarely() -> None:
    schedule, now_s, pauses = CorrectionSchedule(), 0.0, []
    schedule.observe({WEB: 5.0}, now_s)
    for _ in range(12):
        due_s = schedule.next_s()
        assert due_s is not None
        pauses.append(due_s - now_s)
        now_s = due_s
        schedule.attempted(WEB, 5.0, now_s)
        schedule.observe({}, now_s)
        schedule.observe({WEB: 5.0}, now_s)
    assert pauses[:5] == [5.0, 10.0, 20.0, 40.0, 80.0]
    assert pauses[-1] == MAX_PAUSE_S


def test_attempts_are_forgotten_when_the_job_was_left_alone_for_long() -> None:
    schedule = CorrectionSchedule()
    schedule.observe({WEB: 5.0}, 0.0)
    schedule.attempted(WEB, 5.0, 5.0)
    schedule.observe({}, 5.0)
    schedule.observe({}, 5.0 + CALM_S)
    schedule.observe({WEB: 5.0}, 10.0 + CALM_S)
    assert schedule.next_s() == 15.0 + CALM_S


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.0, 30.0), st.sets(st.sampled_from([WEB, API])), st.floats(1.0, 20.0)),
        max_size=40,
    )
)
def test_two_attempts_at_one_job_are_never_closer_than_its_delay(
    steps: list[tuple[float, set[tuple[str, str]], float]],
) -> None:
    schedule, now_s = CorrectionSchedule(), 0.0
    last_s: dict[tuple[str, str], float] = {}
    for wait_s, drifted, delay_s in steps:
        now_s += wait_s
        schedule.observe(dict.fromkeys(drifted, delay_s), now_s)
        for key in schedule.due(now_s):
            assert key in drifted
            assert now_s - last_s.get(key, -1e9) >= 1.0
            last_s[key] = now_s
            schedule.attempted(key, delay_s, now_s)
        assert schedule.due(now_s) == set()


def test_postponed_job_is_due_then_and_has_not_been_attempted() -> None:
    schedule = CorrectionSchedule()
    schedule.observe({WEB: 5.0}, 0.0)
    schedule.postpone(WEB, 300.0)
    assert schedule.due(299.0) == set()
    assert schedule.due(300.0) == {WEB}
    schedule.attempted(WEB, 5.0, 300.0)
    following_s = schedule.next_s()
    assert following_s is not None
    assert 300.0 < following_s <= 310.0
