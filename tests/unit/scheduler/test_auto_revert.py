"""What a failed deployment goes back to."""

from __future__ import annotations

import pytest

from orchgit.model.job import Job
from orchgit.scheduler.auto_revert import AutoRevert, auto_revert
from tests.support.factories import make_deployment, make_job


def versions(*stable: int, newest: int = 3) -> list[Job]:
    return [
        make_job(id="web", version=n, stable=n in stable, priority=50 + n)
        for n in range(newest, -1, -1)
    ]


def reverted(kept: list[Job], wanted: bool = True) -> AutoRevert:
    return auto_revert(make_deployment(kept[0]), "Failed", wanted, kept)


def test_newest_stable_version_runs_again() -> None:
    kept = versions(0, 1)
    assert reverted(kept) == AutoRevert("Failed - rolling back to job version 1", kept[2])


def test_nothing_is_gone_back_to_where_nobody_asked() -> None:
    assert reverted(versions(0, 1), wanted=False) == AutoRevert("Failed")


def test_without_a_stable_version_the_description_says_so() -> None:
    assert reverted(versions()) == AutoRevert("Failed - no stable job version to auto revert to")


@pytest.mark.parametrize("itself", [True, False])
def test_stable_version_that_asks_for_the_same_is_not_run_again(itself: bool) -> None:
    kept = versions(3) if itself else versions(2)
    if not itself:
        kept[1].priority = kept[0].priority
        kept[1].task_groups = kept[0].task_groups
    assert reverted(kept) == AutoRevert(
        f"Failed - not rolling back to stable job version {3 if itself else 2} "
        "as current job has same specification"
    )


def test_job_that_was_changed_since_is_left_as_it_is() -> None:
    kept = versions(0)
    failing = make_deployment(kept[1])
    assert auto_revert(failing, "Failed", True, kept) == AutoRevert("Failed")
    purged = make_deployment(kept[0], job_create_index=kept[0].create_index + 1)
    assert auto_revert(purged, "Failed", True, kept) == AutoRevert("Failed")
