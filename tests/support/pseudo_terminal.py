"""A command on a terminal of its own, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence


def on_terminal(
    command: Sequence[str], environment: Mapping[str, str], columns: int = 80, lines: int = 24
) -> str:
    """Run a command to its end on a terminal of this width; returns everything it wrote there."""
    outside, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    left_out = ("COLUMNS", "LINES", "NO_COLOR")
    child_environment = {k: v for k, v in os.environ.items() if k not in left_out}
    child = subprocess.Popen(
        command,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**child_environment, "TERM": "xterm-256color", **environment},
    )
    os.close(inside)
    written = b""
    try:
        while data := _read(outside):
            written += data
    finally:
        os.close(outside)
        child.wait(60)
    return written.decode()


def _read(descriptor: int) -> bytes:
    """The next output; empty at the end, which Linux tells by EIO."""
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""
