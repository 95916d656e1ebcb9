"""Imports libraries that load rich only for what orchgit does not use of them.

structlog would colour tracebacks with it, and httpx has a command line of its own, which loads
pygments as well. The two cost 6 MB and 30 ms in each process, where they are installed.
"""

from __future__ import annotations

import importlib
import sys

_LEFT_OUT = ("rich", "pygments")


def import_without_rich(name: str) -> None:
    """Import a library as if rich and pygments were not installed. Nothing happens if the library,
    or one of the two, is imported already."""
    if name in sys.modules or any(each in sys.modules for each in _LEFT_OUT):
        return
    for each in _LEFT_OUT:
        sys.modules[each] = None  # type: ignore[assignment]
    try:
        importlib.import_module(name)
    finally:
        for each in _LEFT_OUT:
            del sys.modules[each]
