"""The one configuration of logging: every line of every process has a time, a level, a component.

A module writes `_log = structlog.get_logger(component="raft")` and `_log.info("what happened",
peer=...)`: the event is a fixed text, what varies is in its fields, so that lines can be searched.
Lines go to standard error, and to a file where one is named. What libraries log by way of Python's
`logging` comes out as the same lines. Secrets never belong in a field.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from structlog.processors import CallsiteParameter, CallsiteParameterAdder

from orchgit.errors import InvalidInputError
from orchgit.log_file import LogFile, LogRotation
from orchgit.log_tap import LogTap
from orchgit.printable import printable

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERR": logging.ERROR,
    "ERROR": logging.ERROR,
}
_FIRST = ["timestamp", "level", "component", "event"]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged and where; `file` "" is standard error only."""

    level: str = "INFO"
    json: bool = False
    file: str = ""
    rotation: LogRotation = field(default_factory=LogRotation)

    def __post_init__(self) -> None:
        if self.level.upper() not in _LEVELS:
            raise InvalidInputError(
                f'cannot use log_level "{self.level}": write TRACE, DEBUG, INFO, WARN or ERROR'
            )


class _Lines:
    """Writes the lines. One write per line, as several processes write to the same places."""

    def __init__(self) -> None:
        self.settings = LogSettings()
        self._file: LogFile | None = None

    def open(self, settings: LogSettings) -> None:
        """Opens the file again, as it may have been moved away. Raises InvalidInputError."""
        path = settings.file
        try:
            opened = LogFile(path, settings.rotation) if path else None
        except OSError as error:
            raise InvalidInputError(f"cannot use log_file {path}: {error.strerror}") from None
        if self._file is not None:
            self._file.close()
        self._file = opened

    def write(self, line: str) -> None:
        """Writes a line. A failure is ignored: logging must never end what is logged."""
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError):
                self._file.write(line + "\n")


_LINES = _Lines()
_TAPS: list[LogTap] = []
"""Those who follow the lines now."""


class _Logger:
    """The last link of structlog's chain: writes the rendered line. structlog calls a method per
    level."""

    def msg(self, line: str) -> None:
        _LINES.write(line)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def configure(settings: LogSettings) -> None:
    """Configures the logging of this process; may be called again."""
    _LINES.open(settings)
    _LINES.settings = settings
    _configure_chain()
    # Libraries speak through logging: what they warn of is ours to show. Below that some of them
    # write addresses with what people put into them.
    logging.basicConfig(handlers=[_FromLibraries()], level=logging.WARNING, force=True)


def _configure_chain() -> None:
    settings = _LINES.settings
    level = min(_LEVELS[settings.level.upper()], *(tap.level for tap in _TAPS), logging.CRITICAL)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _printable_values,
            *([_ADD_LOCATION] if any(tap.with_location for tap in _TAPS) else []),
            *([_to_taps] if _TAPS else []),
            _RENDERERS[settings.json],
        ],
        logger_factory=_Logger,
    )


_ADD_LOCATION = CallsiteParameterAdder(
    [CallsiteParameter.FILENAME, CallsiteParameter.LINENO],
    additional_ignores=["orchgit.logs", "logging"],  # of what libraries log
)
_RENDERERS: Mapping[bool, Callable[..., Any]] = {
    True: structlog.processors.JSONRenderer(),
    False: structlog.processors.LogfmtRenderer(
        key_order=_FIRST, drop_missing=True, bool_as_flag=False
    ),
}


def _to_taps(
    logger: _Logger, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Hands a line to those who follow; drops it where only they asked for its level."""
    level = _LEVELS.get(method.upper(), logging.ERROR)
    is_placed = any(tap.with_location for tap in _TAPS)
    # Another thread may log between the beginning of a tap and that of the new chain.
    place = (event.pop("filename", "?"), event.pop("lineno", 0)) if is_placed else ()
    for tap in _TAPS:
        if level >= tap.level:
            line = {**event, "caller": "{}:{}".format(*place)} if tap.with_location else {**event}
            tap.push(str(_RENDERERS[tap.as_json](logger, method, line)))
    if level < _LEVELS[_LINES.settings.level.upper()]:
        raise structlog.DropEvent
    return event


def is_level(level: str) -> bool:
    return level.upper() in _LEVELS


@contextlib.contextmanager
def followed(
    level: str, as_json: bool, wake: Callable[[], None], with_location: bool = False
) -> Iterator[LogTap]:
    """Follows the lines of this process from `level` on, also where it writes fewer itself."""
    tap = LogTap(_LEVELS[level.upper()], as_json, wake, with_location)
    _TAPS.append(tap)
    _configure_chain()
    try:
        yield tap
    finally:
        _TAPS.remove(tap)
        _configure_chain()


def current() -> LogSettings:
    return _LINES.settings


def arguments() -> list[str]:
    """Returns the arguments for a child process, which `from_arguments` configures like this
    one."""
    settings = _LINES.settings
    return [settings.level, str(int(settings.json)), settings.file]


def configure_from(given: list[str]) -> None:
    level, json, file = given
    configure(LogSettings(level, json == "1", file))


class _FromLibraries(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(component=record.name.partition(".")[0])
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info or None)


def _printable_values(
    _logger: _Logger, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Escapes control characters in names and subjects, so that they cannot steer a terminal."""
    event.setdefault("component", "orchgit")
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = printable(value)
    return event
