"""Errors across the wire: the class and data of an OrchgitError travel in the trailing metadata.

The status code is for people and proxies; the receiving side rebuilds the same class from the
metadata, so a caller handles a remote error as it would a local one. An error that is none of ours
is INTERNAL and says only its type: its text may hold what the peer must not see.
"""

from __future__ import annotations

from collections.abc import Iterable

import grpc
import msgspec

from orchgit import errors

METADATA_KEY = "orchgit-error-bin"


class ErrorDetail(msgspec.Struct):
    """What is needed to raise the error again on the other side."""

    kind: str
    message: str
    problems: list[str] = []
    leader: str | None = None
    source: str = ""
    recoverable: bool = False


_CODES: list[tuple[type[errors.OrchgitError], grpc.StatusCode]] = [
    (errors.InvalidInputError, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.NotAllowedError, grpc.StatusCode.PERMISSION_DENIED),
    (errors.NotFoundError, grpc.StatusCode.NOT_FOUND),
    (errors.ConflictError, grpc.StatusCode.ABORTED),
    (errors.TooLargeError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.RefusedError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.TimedOutError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (errors.UnavailableError, grpc.StatusCode.UNAVAILABLE),
]

_BY_STATUS: dict[grpc.StatusCode, type[errors.OrchgitError]] = {code: kind for kind, code in _CODES}
_BY_STATUS[grpc.StatusCode.CANCELLED] = errors.UnreachableError
_BY_STATUS[grpc.StatusCode.UNAVAILABLE] = errors.UnreachableError


def status_of(error: BaseException) -> grpc.StatusCode:
    """The first class of the table that the error belongs to; INTERNAL where none does."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return grpc.StatusCode.INTERNAL


def pack(error: BaseException) -> bytes:
    """The error as trailing metadata."""
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


def from_rpc(error: grpc.aio.AioRpcError, address: str) -> errors.OrchgitError:
    """What a failed call means: the peer's own error, or that it could not be reached."""
    metadata: Iterable[tuple[str, bytes]] = error.trailing_metadata() or ()
    for key, value in metadata:
        if key == METADATA_KEY:
            return unpack(value)
    kind = _BY_STATUS.get(error.code(), errors.UnreachableError)
    text = error.details() or error.code().name
    return kind(f"cannot reach {address}: {text}")
