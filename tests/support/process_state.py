"""What belongs to the whole process: a test that changes it decides how later tests run."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from orchgit import logs

_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
_PYTEST = "PYTEST_"


@dataclass(frozen=True)
class ProcessState:
    """Signal handlers, directory, mask of new files, environment, logging, collector, recursion."""

    parts: Mapping[str, object]

    def changes(self, later: ProcessState) -> list[str]:
        """Returns what is different in `later`."""
        return [
            f"{name}: {value!r} became {later.parts[name]!r}"
            for name, value in self.parts.items()
            if value != later.parts[name]
        ]


def process_state() -> ProcessState:
    """Returns the state of this process as it is now."""
    chain, root = structlog.get_config(), logging.getLogger()
    parts: dict[str, object] = {each.name: signal.getsignal(each) for each in _SIGNALS}
    parts["directory"] = os.getcwd()
    parts["umask"] = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if "Umask" in line
    )
    parts["environment"] = {
        name: value for name, value in os.environ.items() if not name.startswith(_PYTEST)
    }
    parts["log settings"] = logs.current()
    # Its level and processors change while somebody follows the log of a server in this process.
    parts["log chain"] = chain["logger_factory"]
    handlers = [type(each) for each in root.handlers if type(each).__module__ == logs.__name__]
    parts["library logs"] = (handlers, logging.root.manager.disable)
    parts["collector"] = (gc.isenabled(), gc.get_threshold())
    parts["recursion limit"] = sys.getrecursionlimit()
    return ProcessState(parts)


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Adds the variables to the environment of this process while the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
