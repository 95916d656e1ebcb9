"""Windows: the spans of time in which a commit may be applied. Pure.

A window begins when local time matches its cron expression, and lasts as long as its duration, as
elapsed time. A beginning that clocks skip is the moment at which they go forward, so that neither
an allowance nor a ban vanishes with it; one that occurs twice begins twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from orchgit.cron import next_moment, time_zone
from orchgit.model.base import NS_PER_S, datetime_of_ns, ns_of_datetime
from orchgit.model.gates import Window, WindowAction

HORIZON_NS = 400 * 24 * 3600 * NS_PER_S
"""How far ahead an opening is looked for."""
_MAX_STEPS = 5_000
"""How many beginnings of windows one search passes, so that it ends soon."""


def is_inside(window: Window, now_ns: int) -> bool:
    """Returns whether `now_ns` lies in the window."""
    return _current_end(window, datetime_of_ns(now_ns)) is not None


def is_open(windows: Sequence[Window], now_ns: int) -> bool:
    """Returns whether one list of windows lets a commit through: no window denies `now_ns`, and one
    allows it if any window allows at all."""
    inside = {window.action for window in windows if is_inside(window, now_ns)}
    if WindowAction.DENY in inside:
        return False
    return WindowAction.ALLOW in inside or not _allowing(windows)


def denying(lists: Sequence[Sequence[Window]]) -> list[list[Window]]:
    """Returns the windows that deny, as lists: what is left for changes that need no allowance."""
    return [[each for each in windows if each.action == WindowAction.DENY] for windows in lists]


def next_opening_ns(lists: Sequence[Sequence[Window]], now_ns: int) -> int | None:
    """Returns the first moment from `now_ns` on at which every list of windows is open; `now_ns`
    itself if they are, and None if there is none within sight."""
    moment, last = datetime_of_ns(now_ns), datetime_of_ns(now_ns + HORIZON_NS)
    for _ in range(_MAX_STEPS):
        later = _first_possible(lists, moment)
        if later == moment:
            return max(ns_of_datetime(moment), now_ns)
        if later is None or later > last:
            return None
        moment = later
    return None


def _first_possible(lists: Sequence[Sequence[Window]], moment: datetime) -> datetime | None:
    """Returns `moment` if every list is open then, else a later one before which they are not all
    open; None if there is none."""
    for windows in lists:
        for window in windows:
            if window.action == WindowAction.DENY:
                end = _current_end(window, moment)
                if end is not None:
                    return end
        allowing = _allowing(windows)
        if allowing and all(_current_end(window, moment) is None for window in allowing):
            begins = [
                next_moment(window.cron, moment, time_zone(window.time_zone), count_skipped=True)
                for window in allowing
            ]
            return min((begin for begin in begins if begin is not None), default=None)
    return moment


def _allowing(windows: Sequence[Window]) -> list[Window]:
    return [window for window in windows if window.action == WindowAction.ALLOW]


def _current_end(window: Window, moment: datetime) -> datetime | None:
    """Returns when the earliest occurrence that covers `moment` ends; None if none covers it."""
    duration = timedelta(microseconds=window.duration_ns // 1000)
    zone = time_zone(window.time_zone)
    begin = next_moment(window.cron, moment - duration, zone, count_skipped=True)
    return begin + duration if begin is not None and begin <= moment else None
