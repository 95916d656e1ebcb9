"""Prints tables, key-value blocks and relative times."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from orchgit.cli.printing.table_widths import WRAPS, fitted
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


class PrintableConsole(Console):
    """Prints markup whose text may come from outside."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console(stderr: bool = False) -> Console:
    stream = raw_stream(sys.stderr if stderr else sys.stdout)
    return PrintableConsole(file=stream, highlight=False, soft_wrap=True)


def short(identifier: str, verbose: bool = False) -> str:
    return identifier if verbose else identifier[:SHORT_ID_LENGTH]


def styled(status: str) -> str:
    style = STYLES.get(status)
    return f"[{style}]{status}[/{style}]" if style else status


def plain(text: object) -> str:
    """Returns text that is not taken for markup."""
    return str(text).replace("[", "\\[")


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

    On a terminal, columns that say why are wrapped, and other free text is cut.
    """
    out = console()
    cells = [[out.render_str(str(cell)) for cell in row] for row in rows]
    if not cells:
        if empty:
            click.echo(empty)
        return
    header = [Text(column, style="bold") for column in columns]
    listed = [header, *cells]
    natural = [max(cell_len(row[at].plain) for row in listed) for at in range(len(columns))]
    room = out.width if sys.stdout.isatty() else None
    widths, gap = fitted(columns, natural, room)
    for row in listed:
        parts = [
            # a word that is longer than a wrapped column stays whole
            [
                Text(line)
                for line in textwrap.wrap(
                    cell.plain, width, break_long_words=False, break_on_hyphens=False
                )
                or [""]
            ]
            if name in WRAPS and room
            else [cell]
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        for at in range(max(map(len, parts))):
            line = Text(" " * gap).join(
                _padded(part[at] if at < len(part) else Text(), name, width)
                for name, part, width in zip(columns, parts, widths, strict=True)
            )
            line.rstrip()
            out.print(line, overflow="ignore", crop=False)


def _padded(cell: Text, column: str, width: int) -> Text:
    """Returns the cell as wide as its column, or wider if a word of a wrapped column is."""
    if column not in WRAPS:
        cell.truncate(width, overflow="ellipsis")
    cell.pad_right(max(0, width - cell_len(cell.plain)))
    return cell


def ago(unix_ns: int | None) -> str:
    """Returns how long ago a moment was: `3m12s ago`."""
    if not unix_ns:
        return "-"
    return f"{duration(time.time_ns() - unix_ns)} ago"


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
