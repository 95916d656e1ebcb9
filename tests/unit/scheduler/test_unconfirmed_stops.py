"""What was told to stop, on nodes that cannot say whether it did."""

from __future__ import annotations

import pytest

from orchgit.model.allocation import ClientStatus, DesiredStatus
from orchgit.model.node import Node, NodeStatus
from orchgit.model.plan import AllocStop, Plan
from orchgit.scheduler.reconcile.unconfirmed_stops import lose_unconfirmed_stops
from tests.support.factories import make_allocation, make_node

STOPPING = {"desired_status": DesiredStatus.STOP, "client_status": ClientStatus.RUNNING}


@pytest.mark.parametrize(
    ("node", "given_up"),
    [
        (None, True),
        (make_node(status=NodeStatus.DOWN), True),
        (make_node(status=NodeStatus.DISCONNECTED), False),
        (make_node(drain=True), False),
    ],
    ids=["gone", "down", "out of touch", "draining"],
)
@pytest.mark.parametrize("status", [ClientStatus.RUNNING, ClientStatus.UNKNOWN])
def test_only_where_nobody_will_ever_tell(
    node: Node | None, given_up: bool, status: ClientStatus
) -> None:
    held = make_allocation(node_id="n", desired_status=DesiredStatus.STOP, client_status=status)
    plan = Plan()
    lose_unconfirmed_stops(plan, [held], {"n": node})
    assert [(stop.alloc_id, stop.client_status) for stop in plan.stops] == (
        [(held.id, ClientStatus.LOST)] if given_up else []
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"desired_status": DesiredStatus.RUN, "client_status": ClientStatus.RUNNING},
        {"desired_status": DesiredStatus.STOP, "client_status": ClientStatus.COMPLETE},
        {"desired_status": DesiredStatus.EVICT, "client_status": ClientStatus.FAILED},
    ],
)
def test_unconfirmed_stops_leave_out_ended_and_running_allocations(fields: dict[str, str]) -> None:
    plan = Plan()
    lose_unconfirmed_stops(plan, [make_allocation(node_id="n", **fields)], {"n": None})
    assert plan.stops == []


def test_allocation_that_the_plan_stops_is_not_stopped_twice() -> None:
    held = make_allocation(node_id="n", **STOPPING)
    plan = Plan(stops=[AllocStop(alloc_id=held.id)])
    lose_unconfirmed_stops(plan, [held], {"n": None})
    assert len(plan.stops) == 1
