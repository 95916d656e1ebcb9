"""A directory for a run outside of pytest, with agents that may be killed in it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agent.hooks.secrets_mount import unmount_below


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Yields a new directory; it goes with the secrets that killed agents left mounted below it."""
    directory = Path(tempfile.mkdtemp())
    try:
        yield directory
    finally:
        unmount_below(directory)
        shutil.rmtree(directory)
