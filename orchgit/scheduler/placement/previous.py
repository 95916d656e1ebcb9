"""What a placement means for the allocation that it replaces: stops, and reschedule trackers."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.model.allocation import Allocation, RescheduleTracker
from orchgit.model.plan import AllocStop, AllocUpdate, Plan
from orchgit.scheduler.placement.stack import Stacks
from orchgit.scheduler.reconcile.changes import UPDATING, Placement
from orchgit.scheduler.reconcile.reschedule import (
    NO_PLACEMENT,
    RESCHEDULED_OK,
    had_no_placement,
)


class PreviousAllocations:
    """The plan's stops and updates of replaced allocations, while placements are made."""

    def __init__(self, plan: Plan, stacks: Stacks) -> None:
        self._plan = plan
        self._stacks = stacks
        self._stops = {stop.alloc_id: stop for stop in plan.stops}
        self._updates = {update.alloc_id: update for update in plan.updates}

    def free(self, placement: Placement) -> bool:
        """For a destructive update: what the previous allocation holds is free for its successor.
        Returns whether it held claims of volumes."""
        if not placement.stops_previous or placement.previous is None:
            return False
        held_claim = placement.previous.id in self._stacks.claims.held_by
        self._stacks.stop(placement.previous)
        return held_claim

    def restore(self, placement: Placement, held_claim: bool) -> None:
        """Takes `free` back: there is no node for the successor."""
        if placement.stops_previous and placement.previous is not None:
            self._stacks.unstop(placement.previous, held_claim=held_claim)

    def not_replaced(self, placement: Placement) -> None:
        """The previous allocation goes on where it would have been stopped for its successor."""
        previous = placement.previous
        if not placement.rescheduling or previous is None:
            return
        stop = self._stops.get(previous.id)
        if stop is not None and not self._room_may_be_taken(previous):
            self._stops.pop(previous.id)
            self._plan.stops.remove(stop)
        tracker = replace(
            previous.reschedule_tracker or RescheduleTracker(), last_reschedule=NO_PLACEMENT
        )
        update = self._updates.get(previous.id)
        if update is not None:
            update.reschedule_tracker = tracker
        elif not had_no_placement(previous):
            self._plan.updates.append(
                AllocUpdate(
                    alloc_id=previous.id, node_id=previous.node_id, reschedule_tracker=tracker
                )
            )

    def _room_may_be_taken(self, previous: Allocation) -> bool:
        """Whether the plan places something on the node where the allocation runs."""
        return not previous.is_client_terminal and any(
            previous.node_id in columns.node_ids for columns in self._plan.placements
        )

    def replaced(self, placement: Placement) -> None:
        previous = placement.previous
        if previous is None:
            return
        if placement.stops_previous:
            self._plan.stops.append(
                AllocStop(
                    alloc_id=previous.id, node_id=previous.node_id, desired_description=UPDATING
                )
            )
        if not placement.rescheduling:
            return
        tracker = replace(
            previous.reschedule_tracker or RescheduleTracker(), last_reschedule=RESCHEDULED_OK
        )
        stop = self._stops.get(previous.id)
        if stop is not None:
            stop.desired_description = ""
            stop.reschedule_tracker = tracker
        update = self._updates.get(previous.id)
        if update is not None:
            update.reschedule_tracker = tracker
