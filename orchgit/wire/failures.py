"""Errors across gRPC: an OrchgitError travels in the trailing metadata.

The status code is for people and proxies; the receiving side rebuilds the same class from the
metadata. An error that is none of ours is INTERNAL.
"""

from __future__ import annotations

from collections.abc import Iterable

import grpc

from orchgit import errors
from orchgit.wire.error_detail import unpack

METADATA_KEY = "orchgit-error-bin"


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


def from_rpc(error: grpc.aio.AioRpcError, address: str) -> errors.OrchgitError:
    """What a failed call means: the peer's own error, or that it could not be reached."""
    metadata: Iterable[tuple[str, bytes]] = error.trailing_metadata() or ()
    for key, value in metadata:
        if key == METADATA_KEY:
            return unpack(value)
    kind = _BY_STATUS.get(error.code(), errors.UnreachableError)
    text = error.details() or error.code().name
    return kind(f"cannot reach {address}: {text}")
