"""Errors of the Docker SDK and of HTTP as `DriverError`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import requests
from docker.errors import APIError, DockerException, NotFound
from urllib3.exceptions import HTTPError

from agent.drivers.docker.errors import NotThereError, UnreadableLogsError
from orchgit.errors import DriverError

T = TypeVar("T")

_MOST_WRAPPED = 20
_UNREADABLE = ("does not support reading", "is not logging output", "cannot read logs")
"""What engines say of containers whose output they do not have."""


def translated(call: Callable[[], T], what: str) -> T:
    """Make the call; errors of the libraries become DriverError: `cannot {what}: ...`."""
    try:
        return call()
    except (DockerException, requests.RequestException, HTTPError, OSError) as error:
        raise failure(what, error) from None


def failure(what: str, error: Exception) -> DriverError:
    """The error of a call; recoverable unless the engine refused the request itself."""
    if isinstance(error, NotFound):
        return NotThereError(f"cannot {what}: {explain(error)}")
    if any(text in explain(error) for text in _UNREADABLE):
        return UnreadableLogsError(f"cannot {what}: {explain(error)}")
    recoverable = not isinstance(error, APIError) or error.is_server_error()
    return DriverError(f"cannot {what}: {explain(error)}", recoverable=recoverable)


def explain(error: Exception) -> str:
    """Returns what the engine or the system says; the libraries wrap the latter several times."""
    if isinstance(error, APIError):
        return str(error.explanation or error)
    inner: list[object] = [error]
    for _ in range(_MOST_WRAPPED):
        if not inner:
            break
        one = inner.pop(0)
        if isinstance(one, OSError) and one.strerror:
            return one.strerror
        if isinstance(one, BaseException):
            inner += [*one.args, one.__cause__]
    return str(error)
