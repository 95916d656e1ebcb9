"""Which allocations go when there are more than the count."""

from __future__ import annotations

from orchgit.model.allocation import Allocation, alloc_name
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


def test_highest_names_go() -> None:
    live = running(("a", 0, 0), ("b", 3, 0), ("c", 7, 0))
    assert stopped(1, live) == ["b", "c"]
    assert stopped(3, live) == []


def test_name_decides_and_not_the_version() -> None:
    live = running(("old-0", 0, 0), ("new-0", 0, 1), ("old-1", 1, 0), ("old-2", 2, 0))
    assert stopped(3, live) == ["old-2"]
    assert stopped(4, live) == []


def test_two_of_one_name_and_version_go_last() -> None:
    live = running(("a", 0, 0), ("b", 0, 0), ("c", 1, 0))
    assert stopped(2, live) == ["c"]
    assert len(stopped(1, live)) == 2


def test_allocation_that_a_promoted_canary_replaces_stops_first() -> None:
    live = running(("canary", 1, 1), ("old-0", 0, 0), ("old-1", 1, 0))
    canaries = {"canary": live["canary"]}
    assert stopped(2, live, canaries) == ["old-1"]


def test_failed_allocation_is_stopped_by_name_like_a_running_one() -> None:
    live = running(("runs", 0, 0), ("failed", 1, 0))
    live["failed"].client_status = "failed"
    assert stopped(1, live) == ["failed"]


def test_allocation_that_the_servers_ended_is_not_stopped_again() -> None:
    live = running(("a", 0, 0), ("ended", 1, 0), ("b", 2, 0))
    live["ended"].desired_status = "stop"
    assert stopped(2, live) == ["b"]
