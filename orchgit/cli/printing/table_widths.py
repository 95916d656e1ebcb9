"""Computes the widths of a table's columns on a terminal. Pure.

Ids, names and states are never cut: a person copies them. Columns that say why are written in
several lines, down to 24 characters. Then columns of other free text are cut, the widest first;
where that is not enough, columns stand closer, and then the lines run over.
"""

from __future__ import annotations

from collections.abc import Sequence

GIVES_WAY = frozenset(("Subject", "DisplayMessage", "Output", "URL", "Author", "File", "Path"))
WRAPS = frozenset(("Why", "Reason", "Description"))
LEFT_OUT = (
    *("Modified", "Created", "Namespace", "Node ID", "Kind", "Ref"),
    *("RaftProtocol", "SerfStatus", "LastContact", "StableSince", "Priority"),
)
"""On a terminal that is too narrow for a table, these are left out, the first of them first."""
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


def shown_columns(columns: Sequence[str], natural: Sequence[int], room: int | None) -> list[int]:
    """Returns the places of the columns that are shown: all, unless the table is wider than `room`
    with its flexible columns at their narrowest."""
    kept = list(range(len(columns)))
    least = [
        min(width, _LEAST_WRAPPED if name in WRAPS else _LEAST)
        if name in WRAPS or name in GIVES_WAY
        else width
        for name, width in zip(columns, natural, strict=True)
    ]
    for name in LEFT_OUT if room is not None else ():
        if sum(least[at] for at in kept) + len(kept) - 1 > (room or 0):
            kept = [at for at in kept if columns[at] != name]
    return kept


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
