"""Standard input, output and error: closed ones, those that cannot show a character, full ones."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from orchgit.cli.command import FAILURE

_NAMES = ("standard input", "standard output", "standard error")


def prepare_streams() -> None:
    """Puts /dev/null in the place of closed streams, so that no file or connection gets their
    descriptors; what a stream cannot encode is written as an escape sequence."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest descriptor that is free
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flushed(code: int) -> int:
    """Writes what is left to write; returns `code`, or 1 where that fails."""
    for stream in (sys.stderr, sys.stdout):
        try:
            stream.flush()
        except BrokenPipeError:
            _lose(stream.fileno())
            code = code or FAILURE
        except OSError as error:
            _lose(stream.fileno())
            code = code or FAILURE
            with contextlib.suppress(OSError):
                name = _NAMES[stream.fileno()]
                sys.stderr.write(f"Error: cannot write to {name}: {error.strerror or error}\n")
                sys.stderr.flush()
    return code


def _lose(descriptor: int) -> None:
    """Lets the rest go to /dev/null: Python writes once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
