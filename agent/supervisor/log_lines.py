"""Lines of `supervisor.log`, in the form of `orchgit.logs`, which would cost this process 6 MB."""

from __future__ import annotations

import os
import time


def log_line(level: str, event: str) -> None:
    """A line for the log, which is this process's standard output. A full disk, which such lines
    are about, takes none."""
    now_s = time.time()
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s))
    text = event.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    stamp = f"timestamp={moment}.{int(now_s % 1 * 1e6):06d}Z"
    line = f'{stamp} level={level} component=agent.supervisor event="{text}"\n'
    try:
        os.write(1, line.encode())
    except OSError:
        return
