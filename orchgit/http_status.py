"""The one table from errors to HTTP statuses, for servers and agents."""

from __future__ import annotations

import msgspec

from orchgit.errors import (
    ConflictError,
    InvalidInputError,
    InvariantError,
    JobFileError,
    NotAllowedError,
    NotAuthenticatedError,
    NotFoundError,
    OrchgitError,
    RefusedError,
    SourceError,
    TimedOutError,
    TooLargeError,
    UnavailableError,
    ValidationError,
)

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    # A subclass stands before its base: the first match counts.
    (ValidationError, 500),  # what Nomad answers, and its clients look for
    (JobFileError, 400),
    (InvalidInputError, 400),
    (msgspec.ValidationError, 400),
    (msgspec.DecodeError, 400),
    (NotAuthenticatedError, 401),
    (NotAllowedError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (TooLargeError, 413),
    (RefusedError, 500),
    (TimedOutError, 504),
    (UnavailableError, 503),
    (SourceError, 502),
    (InvariantError, 500),
    (OrchgitError, 500),
)


class MethodNotAllowedError(OrchgitError):
    """The path exists; the method does not apply to it."""

    def __init__(self) -> None:
        super().__init__("Invalid method")


def status_of(error: Exception) -> int:
    """Returns the status for an error; 500 for an error without a row in the table."""
    if isinstance(error, MethodNotAllowedError):
        return 405
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)
