"""Which allocations go when there are more than the count."""

from __future__ import annotations

from orchgit.model.allocation import Allocation, AllocDeploymentStatus, alloc_name
from orchgit.scheduler.reconcile.changes import Allocs, alloc_set
from orchgit.scheduler.reconcile.names import NameIndex
from orchgit.scheduler.reconcile.stopping import choose_stops


def running(*each: tuple[str, int, int]) -> Allocs:
    """(id, name index, job version)"""
    return alloc_set(
        [
            Allocation(
                id=alloc_id,
                name=alloc_name("j", "g", index),
                job_id="j",
                task_group="g",
                job_version=version,
                client_status="running",
            )
            for alloc_id, index, version in each
        ]
    )


def stopped(count: int, live: Allocs, canaries: Allocs | None = None) -> list[str]:
    names = NameIndex(count, live.values())
    chosen = choose_stops(names, count, live, {}, canaries or {}, is_canarying=False)
    return sorted(chosen)


def test_the_highest_names_go() -> None:
    live = running(("a", 0, 0), ("b", 3, 0), ("c", 7, 0))
    assert stopped(1, live) == ["b", "c"]
    assert stopped(3, live) == []


def test_an_old_one_whose_successor_is_there_goes_before_the_highest() -> None:
    live = running(("old-0", 0, 0), ("new-0", 0, 1), ("old-1", 1, 0), ("old-2", 2, 0))
    assert stopped(3, live) == ["old-0"]
    assert stopped(2, live) == ["old-0", "old-2"]


def test_it_goes_even_within_the_count_for_its_update_is_half_done() -> None:
    assert stopped(4, running(("old-0", 0, 0), ("new-0", 0, 1))) == ["old-0"]


def test_one_that_is_out_of_touch_waits_for_its_agent() -> None:
    live = running(("old-0", 0, 0), ("new-0", 0, 1))
    live["old-0"].client_status = "unknown"
    assert stopped(4, live) == []


def test_a_canary_replaces_nothing_by_itself() -> None:
    live = running(("old-0", 0, 0), ("canary", 0, 1))
    live["canary"].deployment_status = AllocDeploymentStatus(canary=True)
    assert stopped(2, live) == []


def test_two_of_one_name_and_version_go_last() -> None:
    live = running(("a", 0, 0), ("b", 0, 0), ("c", 1, 0))
    assert stopped(2, live) == ["c"]
    assert len(stopped(1, live)) == 2


def test_what_a_promoted_canary_stands_in_for_goes_first() -> None:
    live = running(("canary", 1, 1), ("old-0", 0, 0), ("old-1", 1, 0))
    canaries = {"canary": live["canary"]}
    assert stopped(2, live, canaries) == ["old-1"]
