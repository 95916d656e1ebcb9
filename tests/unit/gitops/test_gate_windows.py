"""When a window is open, and when it opens next, with daylight saving and overlaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import InvalidInputError
from orchgit.gitops.gates.windows import is_inside, is_open, next_opening_ns
from orchgit.model.base import NS_PER_S, ns_of_datetime
from orchgit.model.gates import Window, WindowAction
from orchgit.model.window_text import parse_window, window_text

MINUTE_NS = 60 * NS_PER_S
BERLIN = ZoneInfo("Europe/Berlin")


def ns(text: str, zone: str = "Europe/Berlin", fold: int = 0) -> int:
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return ns_of_datetime(local.astimezone(UTC))


OFFICE = parse_window("allow 0 9 * * 1-5 8h Europe/Berlin")
FREEZE = parse_window("deny 0 12 * * * 1h Europe/Berlin")


def test_commit_is_let_through_inside_an_allowing_window_only() -> None:
    assert not is_open([OFFICE], ns("2026-03-02 08:59:59"))
    assert is_open([OFFICE], ns("2026-03-02 09:00"))
    assert is_open([OFFICE], ns("2026-03-02 16:59:59"))
    assert not is_open([OFFICE], ns("2026-03-02 17:00"))
    assert not is_open([OFFICE], ns("2026-03-07 10:00"))  # a Saturday


def test_denying_window_is_stronger_than_an_allowing_one() -> None:
    assert not is_open([OFFICE, FREEZE], ns("2026-03-02 12:30"))
    assert is_open([OFFICE, FREEZE], ns("2026-03-02 13:00"))
    assert is_open([FREEZE], ns("2026-03-02 03:00"))


def test_without_windows_every_moment_is_open() -> None:
    now_ns = ns("2026-03-02 12:30")
    assert is_open([], now_ns)
    assert next_opening_ns([], now_ns) == now_ns
    assert next_opening_ns([[], []], now_ns) == now_ns


def test_next_opening_passes_weekends_and_bans() -> None:
    lists = [[OFFICE, FREEZE]]
    assert next_opening_ns(lists, ns("2026-03-06 17:30")) == ns("2026-03-09 09:00")
    assert next_opening_ns(lists, ns("2026-03-02 12:01")) == ns("2026-03-02 13:00")
    assert next_opening_ns(lists, ns("2026-03-02 10:00:01")) == ns("2026-03-02 10:00:01")


def test_a_second_list_narrows_the_first() -> None:
    afternoon = parse_window("allow 0 16 * * * 3h Europe/Berlin")
    lists = [[OFFICE], [afternoon]]
    assert next_opening_ns(lists, ns("2026-03-02 10:00")) == ns("2026-03-02 16:00")
    assert next_opening_ns(lists, ns("2026-03-02 17:00")) == ns("2026-03-03 16:00")


def test_windows_that_never_meet_have_no_opening() -> None:
    mornings, evenings = parse_window("allow 0 6 * * * 1h"), parse_window("allow 0 20 * * * 1h")
    assert next_opening_ns([[mornings], [evenings]], ns("2026-03-02 10:00")) is None
    assert next_opening_ns([[parse_window("deny * * * * * 1h")]], 0) is None


def test_overlapping_occurrences_count_as_one_span() -> None:
    often = parse_window("deny */10 9 * * * 30m UTC")
    now_ns = ns("2026-03-02 09:05", "UTC")
    assert next_opening_ns([[often]], now_ns) == ns("2026-03-02 10:20", "UTC")


def test_window_follows_local_time_across_daylight_saving() -> None:
    for day in ("2026-03-27", "2026-03-30", "2026-10-23", "2026-10-26"):
        assert is_open([OFFICE], ns(f"{day} 09:00"))
        assert not is_open([OFFICE], ns(f"{day} 08:59"))


def test_beginning_that_clocks_skip_is_when_they_go_forward() -> None:
    night = parse_window("deny 30 2 * * * 30m Europe/Berlin")
    assert not is_inside(night, ns("2026-03-29 01:59:59"))
    assert is_inside(night, ns("2026-03-29 03:00"))
    assert not is_inside(night, ns("2026-03-29 03:30"))


def test_beginning_that_occurs_twice_begins_twice() -> None:
    night = parse_window("allow 30 2 * * * 10m Europe/Berlin")
    for fold in (0, 1):
        assert not is_inside(night, ns("2026-10-25 02:29", fold=fold))
        assert is_inside(night, ns("2026-10-25 02:35", fold=fold))
        assert not is_inside(night, ns("2026-10-25 02:40", fold=fold))


def test_duration_is_elapsed_time() -> None:
    night = parse_window("allow 0 22 * * * 8h Europe/Berlin")
    assert is_inside(night, ns("2026-03-29 06:59"))  # an hour was skipped
    assert not is_inside(night, ns("2026-03-29 07:00"))
    assert not is_inside(night, ns("2026-10-25 05:00"))  # an hour came twice


windows = st.builds(
    Window,
    action=st.sampled_from(WindowAction),
    cron=st.builds(
        "{} {} * * {}".format,
        st.sampled_from(("0", "30", "*/20", "59")),
        st.sampled_from(("*", "1-3", "2", "9", "23", "0")),
        st.sampled_from(("*", "0", "1-5", "6")),
    ),
    duration_ns=st.sampled_from((1, 10, 45, 120, 900)).map(lambda m: m * MINUTE_NS),
    time_zone=st.sampled_from(("", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")),
)
moments = st.one_of(
    *(
        st.integers(-36 * 60, 36 * 60).map(lambda m, at=at: ns(at, "UTC") + m * MINUTE_NS)
        for at in (
            "2026-03-29 01:00",
            "2026-10-25 01:00",
            "2026-03-08 07:00",
            "2026-11-01 06:00",
            "2026-04-04 15:00",
            "2026-10-03 15:30",
        )
    )
)


def occurrences(window: Window, now_ns: int) -> bool:
    """Whether the window covers the moment, by looking at each minute before it."""
    zone = ZoneInfo(window.time_zone or "UTC")
    now = datetime.fromtimestamp(now_ns // NS_PER_S, UTC)
    begin = now - timedelta(microseconds=window.duration_ns // 1000) + timedelta(minutes=1)
    while begin <= now:
        if _begins(window.cron, begin, zone):
            return True
        begin += timedelta(minutes=1)
    return False


def _begins(cron: str, moment: datetime, zone: ZoneInfo) -> bool:
    """Whether the local minute matches, or one that clocks skipped at this moment."""
    local = moment.astimezone(zone).replace(tzinfo=None)
    before = (moment - timedelta(minutes=1)).astimezone(zone).replace(tzinfo=None)
    walls = [local]
    while before + timedelta(minutes=1) < local:
        before += timedelta(minutes=1)
        walls.append(before)
    return any(_matches(cron, wall) for wall in walls)


def _matches(cron: str, wall: datetime) -> bool:
    minute, hour, _, _, day = cron.split()
    return (
        _in_field(minute, wall.minute)
        and _in_field(hour, wall.hour)
        and _in_field(day, wall.isoweekday() % 7)
    )


def _in_field(field: str, value: int) -> bool:
    if field == "*":
        return True
    if field.startswith("*/"):
        return value % int(field[2:]) == 0
    first, _, last = field.partition("-")
    return int(first) <= value <= int(last or first)


@settings(max_examples=300, deadline=None)
@given(windows, moments)
def test_window_covers_a_moment_as_a_look_at_every_minute_says(window: Window, now_ns: int) -> None:
    assert is_inside(window, now_ns) == occurrences(window, now_ns)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(windows, max_size=3), max_size=2), moments)
def test_next_opening_is_the_first_open_moment(lists: list[list[Window]], now_ns: int) -> None:
    def open_at(moment_ns: int) -> bool:
        return all(is_open(each, moment_ns) for each in lists)

    found_ns = next_opening_ns(lists, now_ns)
    end_ns = now_ns + 30 * 3600 * NS_PER_S
    if found_ns is not None:
        assert found_ns >= now_ns
        assert open_at(found_ns)
        end_ns = min(end_ns, found_ns)
    steps = range(now_ns, end_ns, 10 * MINUTE_NS)
    assert not any(open_at(moment_ns) for moment_ns in steps)


@given(windows)
def test_text_of_a_window_is_read_back(window: Window) -> None:
    assert parse_window(window_text(window)) == window


@pytest.mark.parametrize(
    "text",
    ["", "allow", "sometimes 0 9 * * * 1h", "allow 0 9 * * *", "allow 0 9 * * * soon UTC"],
)
def test_text_that_means_no_window_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot read window"):
        parse_window(text)
