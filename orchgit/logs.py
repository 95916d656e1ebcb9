"""The one log of a process: each record is a line with its time, level and component.

A module writes `_log = structlog.get_logger(component="raft")` and `_log.info("what happened",
peer=...)`: the event is a fixed text, what varies is in its fields. What libraries log by way of
Python's `logging` comes out as the same lines. Secrets never belong in a field.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from orchgit.errors import InvalidInputError
from orchgit.printable import printable

LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
}
"""Nomad's names are known as well."""
_KEYS = ["timestamp", "level", "component", "event"]
_Event = MutableMapping[str, Any]


def configure_logs(level: str, as_json: bool, stream: TextIO) -> None:
    """From now on records of `level` and above are written to `stream`, as logfmt or as JSON.

    Raises InvalidInputError for an unknown level.
    """
    renderer: Any = structlog.processors.JSONRenderer()
    if not as_json:
        renderer = structlog.processors.LogfmtRenderer(
            key_order=_KEYS, drop_missing=True, bool_as_flag=False
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _printable_values,
            renderer,
        ],
        logger_factory=structlog.WriteLoggerFactory(file=stream),
    )
    logging.basicConfig(handlers=[_ToStructlog()], force=True)
    # uvicorn tells of its own start and stop; the server does so itself.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    set_level(level)


def set_level(level: str) -> None:
    """Change the level of a running process. Raises InvalidInputError for an unknown one."""
    number = LEVELS.get(level.upper())
    if number is None:
        raise InvalidInputError(
            f"cannot log at level {level!r}: it is one of {', '.join(sorted(set(LEVELS)))}"
        )
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(number))
    logging.getLogger().setLevel(max(number, logging.INFO))


def _printable_values(_logger: object, _method: str, event: _Event) -> _Event:
    """Names and subjects from outside do not steer the terminal that shows the log."""
    event.setdefault("component", "orchgit")
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = printable(value)
    return event


class _ToStructlog(logging.Handler):
    """Hands what libraries log to the one log, under the library's name."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(component=record.name.partition(".")[0])
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info or None)
