"""Prints tables, key-value blocks and relative times."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence

import click

from orchgit.cli.printing.markup import (
    Span,
    coloured,
    cut,
    escaped,
    spans,
    text_of,
    wants_colours,
    width,
)
from orchgit.cli.printing.table_widths import WRAPS, fitted, shown_columns
from orchgit.cli.printing.terminal import raw_stream
from orchgit.printable import printable

SHORT_ID_LENGTH = 8

STYLES = {
    "ready": "green",
    "running": "green",
    "healthy": "green",
    "successful": "green",
    "complete": "green",
    "applied": "cyan",
    "progressing": "cyan",
    "pending": "yellow",
    "blocked": "yellow",
    "degraded": "yellow",
    "overridden": "yellow",
    "drifted": "yellow",
    "paused": "yellow",
    "held": "yellow",
    "unreachable": "red",
    "unknown": "yellow",
    "superseded": "magenta",
    "reverted": "magenta",
    "failed": "red",
    "lost": "red",
    "down": "red",
    "disconnected": "red",
}


class Console:
    """Prints markup whose text may come from outside: nothing in it steers the terminal."""

    def __init__(self, stderr: bool = False) -> None:
        self._stream = raw_stream(sys.stderr if stderr else sys.stdout)
        context = click.get_current_context(silent=True)
        asked = context.color if context else None
        self._colours = wants_colours(self._stream, asked, dict(os.environ))

    def print(self, markup: str) -> None:
        self.write(spans(printable(markup)))

    def write(self, pieces: list[Span]) -> None:
        """Prints one line of pieces, which hold printable text."""
        text = coloured(pieces) if self._colours else text_of(pieces)
        self._stream.write(text + "\n")


def console(stderr: bool = False) -> Console:
    return Console(stderr)


def short(identifier: str, verbose: bool = False) -> str:
    return identifier if verbose else identifier[:SHORT_ID_LENGTH]


def styled(status: str) -> str:
    style = STYLES.get(status)
    return f"[{style}]{status}[/{style}]" if style else status


def plain(text: object) -> str:
    """Returns text that is not taken for markup."""
    return escaped(str(text))


def heading(text: str) -> None:
    console().print(f"\n[bold]{plain(text)}[/bold]")


def pairs(rows: Iterable[tuple[str, object]]) -> None:
    """Prints `Name  = value` lines, aligned; values are markup."""
    listed = [(name, value) for name, value in rows if value not in (None, "")]
    width = max((len(name) for name, _ in listed), default=0)
    for name, value in listed:
        console().print(f"{name.ljust(width)} = {value}")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "") -> None:
    """Prints a table without rules; cells are markup. Without rows it prints `empty`.

    On a terminal, columns that say why are wrapped, other free text is cut, and where that is not
    enough, columns are left out.
    """
    cells = [[spans(printable(str(cell))) for cell in row] for row in rows]
    if not cells:
        if empty:
            click.echo(empty)
        return
    out = console()
    listed = [[[(column, "1")] for column in columns], *cells]
    natural = [max(width(text_of(row[at])) for row in listed) for at in range(len(columns))]
    room = _terminal_width() if sys.stdout.isatty() else None
    kept = shown_columns(columns, natural, room)
    columns = [columns[at] for at in kept]
    widths, gap = fitted(columns, [natural[at] for at in kept], room)
    for row in ([row[at] for at in kept] for row in listed):
        parts = [
            _wrapped(cell, size) if name in WRAPS and room else [cut(cell, size)]
            for name, cell, size in zip(columns, row, widths, strict=True)
        ]
        for at in range(max(map(len, parts))):
            line: list[Span] = []
            filled = 0
            for part, size in zip(parts, widths, strict=True):
                cell = part[at] if at < len(part) else []
                if cell:
                    line += [(" " * filled, ""), *cell]
                    filled = 0
                filled += max(0, size - width(text_of(cell))) + gap
            out.write(line)


def _wrapped(cell: list[Span], room: int) -> list[list[Span]]:
    """Returns the lines of a cell; a word that is longer than the column stays whole."""
    import textwrap

    lines = textwrap.wrap(text_of(cell), room, break_long_words=False, break_on_hyphens=False)
    return [[(line, "")] for line in lines or [""]]


def _terminal_width() -> int:
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return 80


def ago(unix_ns: int | None) -> str:
    """Returns how long ago a moment was: `3m12s ago`."""
    if not unix_ns:
        return "-"
    return f"{duration(time.time_ns() - unix_ns)} ago"


def amount(size_bytes: float) -> str:
    """Returns a size in the largest unit that keeps a number: `3.2 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def moment(unix_ns: int | None) -> str:
    """Returns a moment in this machine's time zone: `2027-01-15T08:00:00+01:00`."""
    if not unix_ns:
        return "-"
    local = time.localtime(unix_ns // 1_000_000_000)
    sign, minutes = "-" if local.tm_gmtoff < 0 else "+", abs(local.tm_gmtoff) // 60
    offset = f"{sign}{minutes // 60:02}:{minutes % 60:02}" if minutes else "Z"
    return time.strftime("%Y-%m-%dT%H:%M:%S", local) + offset


def counted(count: int, noun: str) -> str:
    """Returns `1 job`, `2 jobs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration(span_ns: int) -> str:
    """Returns the two largest units of a span of time."""
    seconds = max(0, span_ns) // 1_000_000_000
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        if count or parts or name == "s":
            parts.append(f"{count}{name}")
    return "".join(parts[:2])
