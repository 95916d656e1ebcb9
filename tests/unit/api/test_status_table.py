"""Errors become statuses in one table."""

from __future__ import annotations

import pytest

from orchgit import errors
from orchgit.http_status import STATUSES, MethodNotAllowedError, status_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidInputError("x"), 400),
        (errors.ValidationError("x"), 500),
        (errors.JobFileError("x"), 400),
        (errors.NotAllowedError("x"), 403),
        (errors.NotFoundError("x"), 404),
        (MethodNotAllowedError(), 405),
        (errors.ConflictError("x"), 409),
        (errors.TooLargeError("x"), 413),
        (errors.RefusedError("x"), 500),
        (errors.NotLeaderError("x"), 503),
        (errors.TimedOutError("x"), 504),
        (ValueError("x"), 500),
    ],
)
def test_status(error: Exception, status: int) -> None:
    assert status_of(error) == status


def test_no_row_of_the_status_table_hides_a_later_one() -> None:
    """A base class before its subclass would decide for both."""
    kinds = [kind for kind, _ in STATUSES]
    for place, kind in enumerate(kinds):
        assert not any(issubclass(kind, earlier) for earlier in kinds[:place])
