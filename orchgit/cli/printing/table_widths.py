"""Computes the widths of a table's columns on a terminal. Pure.

Ids, names and states are never cut: a person copies them. Columns that say why are written in
several lines, down to 24 characters. Then columns of other free text are cut, the widest first;
where that is not enough, columns stand closer, and then the lines run over.
"""

from __future__ import annotations

from collections.abc import Sequence

GIVES_WAY = frozenset(("Subject", "DisplayMessage", "Output", "URL", "Author", "File", "Path"))
WRAPS = frozenset(("Why", "Reason", "Description"))
_GAPS = (2, 1)
_LEAST = 6
_LEAST_WRAPPED = 24


def fitted(
    columns: Sequence[str], natural: Sequence[int], room: int | None
) -> tuple[list[int], int]:
    """Returns (width of each column, spaces between two of them).

    `natural` is the widest cell of each column, `room` the width of the terminal, or None where
    nothing has to fit.
    """
    widths = list(natural)
    gap = _GAPS[0]
    if room is None:
        return widths, gap
    wrapped = [at for at, name in enumerate(columns) if name in WRAPS]
    cut = [at for at, name in enumerate(columns) if name in GIVES_WAY]
    for gap in _GAPS:
        over = sum(natural) + gap * (len(columns) - 1) - room
        widths = list(natural)
        over = _narrow(widths, wrapped, over, _LEAST_WRAPPED)
        over = _narrow(widths, cut, over, _LEAST)
        if over <= 0:
            break
    return widths, gap


def _narrow(widths: list[int], flexible: Sequence[int], over: int, least: int) -> int:
    """Takes `over` characters from the widest of the `flexible` columns, one after the other.
    Returns how many are left."""
    while over > 0:
        widest = max(flexible, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= least:
            break
        widths[widest] -= 1
        over -= 1
    return over
