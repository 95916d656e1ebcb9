"""The wire's own rules: what may be served without TLS, and errors nobody can read."""

from __future__ import annotations

import grpc
import msgspec
import pytest

from orchgit import errors
from orchgit.wire import error_detail, failures
from orchgit.wire.tls import check_plain


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:4647", "[::1]:4647"])
def test_loopback_address_needs_no_tls(address: str) -> None:
    check_plain(address)


@pytest.mark.parametrize("address", ["0.0.0.0:4647", "10.0.0.1:1", "example.org:1", ":4647"])
def test_other_address_without_tls_is_refused(address: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="TLS"):
        check_plain(address)


def test_unknown_error_class_becomes_an_orchgit_error() -> None:
    data = msgspec.msgpack.encode(error_detail.ErrorDetail("BrandNewError", "cannot"))
    assert type(error_detail.unpack(data)) is errors.OrchgitError
    assert isinstance(error_detail.unpack(b"\xc1"), errors.UnavailableError)


def test_name_that_is_no_error_class_is_not_instantiated() -> None:
    data = msgspec.msgpack.encode(error_detail.ErrorDetail("Sequence", "cannot"))
    assert type(error_detail.unpack(data)) is errors.OrchgitError


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NotLeaderError("cannot"), grpc.StatusCode.UNAVAILABLE),
        (errors.TimedOutError("cannot"), grpc.StatusCode.DEADLINE_EXCEEDED),
        (errors.JobFileError("cannot"), grpc.StatusCode.INVALID_ARGUMENT),
        (KeyError("x"), grpc.StatusCode.INTERNAL),
    ],
)
def test_nearest_error_class_decides_the_status(error: Exception, status: grpc.StatusCode) -> None:
    assert failures.status_of(error) == status
