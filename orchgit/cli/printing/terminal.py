"""Keeps text from outside from steering the terminal that a command writes to.

`guard_terminal` is called once, when the command line starts. From then on all text goes through
`printable` if a terminal reads it; a file or pipe gets it unchanged. Colours are written to the raw
stream, by a console that was given printable text.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO, cast

from orchgit.printable import printable


class PrintableStream:
    """A text stream whose `write` makes control characters visible; else the stream it wraps."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        self.raw.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def guard_terminal() -> None:
    """Makes standard output and standard error show control characters on terminals."""
    if sys.stdout.isatty():
        sys.stdout = cast(TextIO, PrintableStream(sys.stdout))
    if sys.stderr.isatty():
        sys.stderr = cast(TextIO, PrintableStream(sys.stderr))


def raw_stream(stream: TextIO) -> TextIO:
    """Returns the stream without its guard.

    For sequences of our own, and for content that a person asked for as it is (a task's output, a
    file of it).
    """
    return stream.raw if isinstance(stream, PrintableStream) else stream
