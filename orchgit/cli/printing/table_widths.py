"""Computes the widths of a table's columns on a terminal. Pure.

Ids, names and states are never cut: a person copies them. Columns of free text give way, the widest
first; where that is not enough, columns stand closer, and then the lines run over.
"""

from __future__ import annotations

from collections.abc import Sequence

GIVES_WAY = frozenset(
    ("Subject", "Description", "DisplayMessage", "Output", "URL", "Author", "File", "Path")
)
_GAPS = (2, 1)
_LEAST = 6


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
    flexible = [at for at, name in enumerate(columns) if name in GIVES_WAY]
    for gap in _GAPS:
        over = sum(natural) + gap * (len(columns) - 1) - room
        widths = _narrowed(natural, flexible, over)
        if sum(widths) + gap * (len(columns) - 1) <= room:
            break
    return widths, gap


def _narrowed(natural: Sequence[int], flexible: Sequence[int], over: int) -> list[int]:
    widths = list(natural)
    while over > 0:
        widest = max(flexible, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
        over -= 1
    return widths
