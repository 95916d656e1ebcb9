"""The text form of a window: `allow 0 9 * * 1-5 8h Europe/Berlin`."""

from __future__ import annotations

from orchgit.durations import parse_length_ns, to_text
from orchgit.errors import InvalidInputError
from orchgit.model.gates import Window, WindowAction

_SHAPE = "write it like 'allow 0 9 * * 1-5 8h Europe/Berlin'"


def parse_window(text: str) -> Window:
    """Returns the window that a text means: `allow` or `deny`, a cron expression, a duration and,
    if it is not UTC, a time zone. Raises InvalidInputError for any other text."""
    action, *rest = text.split() or [""]
    zone = ""
    if len(rest) > 2 and not rest[-1][:1].isdigit():
        zone = rest.pop()
    if action not in tuple(WindowAction) or len(rest) < 2:
        raise InvalidInputError(f"cannot read window {text!r}: {_SHAPE}")
    *cron, duration = rest
    try:
        duration_ns = parse_length_ns(duration)
    except InvalidInputError:
        raise InvalidInputError(
            f"cannot read window {text!r}: {duration!r} is no duration; {_SHAPE}"
        ) from None
    return Window(action, " ".join(cron), duration_ns, zone)


def window_text(window: Window) -> str:
    """Returns the text form of a window."""
    parts = [window.action, window.cron, to_text(window.duration_ns), window.time_zone]
    return " ".join(part for part in parts if part)
