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
from typing import Any

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

    handlers: Mapping[signal.Signals, Any]
    directory: str
    umask: int
    environment: Mapping[str, str]
    log_settings: logs.LogSettings
    logger_factory: object
    """structlog's. Its level and processors change while somebody follows the log of a server in
    this process, so they are left out."""
    library_handlers: tuple[type[logging.Handler], ...]
    collector: tuple[bool, tuple[int, int, int]]
    recursion_limit: int

    def changes(self, later: ProcessState) -> list[str]:
        """Returns the names of what is different in `later`."""
        return [name for name in self.__dataclass_fields__ if vars(self)[name] != vars(later)[name]]

    def restore(self) -> None:
        """Makes the process be as it was."""
        now = process_state()
        for number, handler in self.handlers.items():
            if now.handlers[number] != handler and handler is not None:
                signal.signal(number, handler)
        os.chdir(self.directory)
        os.umask(self.umask)
        for name in now.environment.keys() - self.environment.keys():
            del os.environ[name]
        os.environ.update(self.environment)
        if {"log_settings", "logger_factory", "library_handlers"} & set(self.changes(now)):
            logs.configure(self.log_settings)
        (gc.enable if self.collector[0] else gc.disable)()
        gc.set_threshold(*self.collector[1])
        sys.setrecursionlimit(self.recursion_limit)


def process_state() -> ProcessState:
    """Returns the state of this process as it is now."""
    status = Path("/proc/self/status").read_text()
    root = logging.getLogger()
    return ProcessState(
        handlers={each: signal.getsignal(each) for each in _SIGNALS},
        directory=os.getcwd(),
        umask=int(status.partition("Umask:")[2].split()[0], 8),
        environment={name: os.environ[name] for name in os.environ if not name.startswith(_PYTEST)},
        log_settings=logs.current(),
        logger_factory=structlog.get_config()["logger_factory"],
        library_handlers=tuple(
            type(each) for each in root.handlers if type(each).__module__ == logs.__name__
        ),
        collector=(gc.isenabled(), gc.get_threshold()),
        recursion_limit=sys.getrecursionlimit(),
    )


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Adds the variables to the environment of this process while the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
