"""The one tree of errors.

    OrchgitError
    |-- InvalidInputError          400  what the caller sent cannot be used
    |   |-- ValidationError        400  a job (or other object) breaks the server's rules; .problems
    |   `-- JobFileError           400  a job file; .problems with file:line:column
    |-- NotAuthenticatedError      401  what should prove who the caller is does not
    |-- NotAllowedError            403  the caller lacks the right
    |-- NotFoundError              404  no such object
    |-- ConflictError              409  compare-and-set failed, or the state forbids the change
    |-- TooLargeError              413  a limit was passed; it names the limit
    |-- RefusedError               500  Nomad's clients expect 500 for these refusals
    |-- UnavailableError           503  try again: no leader, store behind, shutting down
    |   |-- NotLeaderError         503  .leader is the address to ask instead, or None
    |   |-- UnreachableError       503  no connection to the other side, or it was lost
    |   |-- DiskFullError          503  nothing was written; goes on when there is room
    |   `-- TimedOutError          504  the wait ended first
    |-- SourceError                 -   a git source cannot be read: .source
    |-- DriverError                 -   a task cannot be started or controlled; .recoverable
    `-- InvariantError             500  the program is wrong; the component stops

Messages begin with "cannot", name the thing and the way out. `orchgit.http_status` maps the classes
to HTTP codes in one table; libraries' own exceptions are translated where the library is imported.
"""

from __future__ import annotations

from collections.abc import Sequence


class OrchgitError(Exception):
    """Root of every error a user or caller may see."""

    @property
    def message(self) -> str:
        return str(self)


class InvalidInputError(OrchgitError):
    """What the caller sent cannot be used."""


class ValidationError(InvalidInputError):
    """An object breaks the server's rules; `problems` lists every one of them.

    `places` has the single mistakes with their paths in the object, for a caller who knows the
    file; `warnings` is what else the object's author should know.
    """

    def __init__(
        self,
        message: str,
        problems: Sequence[str] = (),
        places: Sequence[tuple[tuple[str | int, ...], str]] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        self.places = tuple(places)
        self.warnings = tuple(warnings)


class JobFileError(InvalidInputError):
    """A job file cannot be turned into a job; `problems` are `file:line:column: text` lines."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class NoJobError(JobFileError):
    """A file holds no job, and nothing in it looks like one."""


class NotAuthenticatedError(OrchgitError):
    """What should prove who the caller is cannot be trusted."""


class NotAllowedError(OrchgitError):
    """The caller lacks the right to do this."""


class NotFoundError(OrchgitError):
    """There is no such object."""


class ConflictError(OrchgitError):
    """Compare-and-set failed, or the object's state forbids the change."""


class TooLargeError(OrchgitError):
    """A size or count limit was passed; the message names the limit."""


class RefusedError(OrchgitError):
    """The request is understood and refused; Nomad's clients expect status 500 here."""


class NotUnderstoodError(RefusedError):
    """A server of the cluster runs a version that would not understand the log entry."""


class UnavailableError(OrchgitError):
    """The server cannot do this now; the same request may succeed later."""


class NotLeaderError(UnavailableError):
    """Only the leader can do this; `leader` is its address where one is known."""

    def __init__(self, message: str, leader: str | None = None) -> None:
        super().__init__(message)
        self.leader = leader


class UnreachableError(UnavailableError):
    """There is no connection to the other side, or it was lost: what was under way is unknown."""


class DiskFullError(UnavailableError):
    """The disk is full: nothing was written. Writing goes on by itself when there is room."""


class TimedOutError(UnavailableError):
    """The wait ended before the thing waited for happened."""


class SourceError(OrchgitError):
    """A git source cannot be read; an outage, never a reason to delete jobs."""

    def __init__(self, message: str, source: str = "") -> None:
        super().__init__(message)
        self.source = source


class DriverError(OrchgitError):
    """A task cannot be started or controlled; `recoverable` says a retry may help."""

    def __init__(self, message: str, recoverable: bool = False) -> None:
        super().__init__(message)
        self.recoverable = recoverable


class InvariantError(OrchgitError):
    """The program itself is wrong; the component that finds it stops."""
