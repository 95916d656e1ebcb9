"""What a report makes of an allocation's client status."""

from __future__ import annotations

import pytest

from orchgit.model.allocation import status_after_report


@pytest.mark.parametrize(
    ("known", "reported", "after"),
    [
        ("pending", "running", "running"),
        ("running", "failed", "failed"),
        ("failed", "running", "failed"),
        ("failed", "complete", "failed"),
        ("complete", "running", "complete"),
        ("complete", "failed", "failed"),
        ("lost", "running", "running"),
        ("unknown", "running", "running"),
    ],
)
def test_report_never_revives_an_ended_allocation(known: str, reported: str, after: str) -> None:
    assert status_after_report(known, reported) == after
