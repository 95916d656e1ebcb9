"""Errors as bytes: class and data of an OrchgitError, the same class again on the other side.

So a caller handles a remote error as it would a local one. An error that is none of ours says only
its type: its text may hold what the peer must not see.
"""

from __future__ import annotations

import msgspec

from orchgit import errors


class ErrorDetail(msgspec.Struct):
    """What is needed to raise the error again on the other side."""

    kind: str
    message: str
    problems: list[str] = []
    leader: str | None = None
    source: str = ""
    recoverable: bool = False


def pack(error: BaseException) -> bytes:
    """The error as bytes."""
    if not isinstance(error, errors.OrchgitError):
        text = f"cannot answer: {type(error).__name__} inside the server; its log has the story"
        return msgspec.msgpack.encode(ErrorDetail("RefusedError", text))
    detail = ErrorDetail(type(error).__name__, str(error))
    if isinstance(error, errors.ValidationError | errors.JobFileError):
        detail.problems = list(error.problems)
    if isinstance(error, errors.NotLeaderError):
        detail.leader = error.leader
    if isinstance(error, errors.SourceError):
        detail.source = error.source
    if isinstance(error, errors.DriverError):
        detail.recoverable = error.recoverable
    return msgspec.msgpack.encode(detail)


def unpack(data: bytes) -> errors.OrchgitError:
    """The error that `pack` described; a class this version does not know becomes its base."""
    try:
        detail = msgspec.msgpack.decode(data, type=ErrorDetail)
    except msgspec.DecodeError:
        return errors.UnavailableError("cannot read the error that the peer answered")
    kind = getattr(errors, detail.kind, errors.OrchgitError)
    if not (isinstance(kind, type) and issubclass(kind, errors.OrchgitError)):
        kind = errors.OrchgitError
    if issubclass(kind, errors.ValidationError | errors.JobFileError):
        return kind(detail.message, detail.problems)
    if issubclass(kind, errors.NotLeaderError):
        return kind(detail.message, detail.leader)
    if issubclass(kind, errors.SourceError):
        return kind(detail.message, detail.source)
    if issubclass(kind, errors.DriverError):
        return kind(detail.message, detail.recoverable)
    return kind(detail.message)
