"""What a group does about allocations that failed, were lost, disconnected or reconnected."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.scheduler.reconcile.changes import Allocs, Disconnect, alloc_set, union, without
from orchgit.scheduler.reconcile.classify import Classes
from orchgit.scheduler.reconcile.followups import Followups
from orchgit.scheduler.reconcile.group_state import GroupState
from orchgit.scheduler.reconcile.reconnect import reconcile_reconnecting
from orchgit.scheduler.reconcile.reschedule import Rescheduling, split_by_reschedule
from orchgit.scheduler.reconcile.stopping import client_stop_ns


@dataclass(slots=True)
class FailureHandling:
    """Decides what is replaced now, what later, and what waits for its node."""

    _state: GroupState
    _followups: Followups
    disconnecting: Allocs = field(default_factory=dict)
    """Those that this evaluation finds disconnected and that are replaced now."""
    _returned: Allocs = field(default_factory=dict)
    """Originals whose node came back, and that stay."""

    def handle_reconnecting(self, classes: Classes, everything: Allocs) -> None:
        """Keeps the original or its replacements; `classes` lose those that are stopped."""
        if not classes.reconnecting:
            return
        state = self._state
        self._returned, stops = reconcile_reconnecting(
            classes.reconnecting, everything, state.job, state.context.group_of
        )
        state.changes.stops += stops
        state.desired.stop += len(stops)
        back = [a for a in self._returned.values() if a.client_status != ClientStatus.UNKNOWN]
        state.changes.reconnects += back
        state.desired.reconnect = len(back)
        stopped = alloc_set([stop.allocation for stop in stops])
        classes.untainted = without(classes.untainted, stopped)
        classes.migrate = without(classes.migrate, stopped)
        classes.lost = without(classes.lost, stopped)
        classes.disconnecting = without(classes.disconnecting, stopped)
        classes.expiring = without(classes.expiring, stopped)

    def give_up_expired(self, classes: Classes) -> None:
        """Counts expired allocations as lost. Those that are not to be replaced stay unknown until
        their node comes back or they are stopped."""
        disconnect = self._state.group.disconnect
        if disconnect is None or disconnect.replace:
            classes.lost = union(classes.lost, classes.expiring)
        else:
            classes.untainted = union(classes.untainted, classes.expiring)

    def reschedule(self, classes: Classes) -> Rescheduling:
        """Splits the untainted, returned and disconnecting allocations, and writes the follow-up
        evaluations of those that are replaced later."""
        state = self._state
        # An original that stays counts again, reported or not: its replacement is stopped.
        split = split_by_reschedule(
            union(classes.untainted, self._returned),
            state.context,
            state.deployments.current,
            disconnecting=False,
            counted=self._returned,
        )
        state.desired.ignore += split.waiting
        if classes.disconnecting:
            self._disconnect(classes.disconnecting, split)
        ids = self._followups.reschedule(split.later)
        state.changes.followup_of.update({a.id: (a, ids[a.id]) for _, a in split.later})
        state.desired.reschedule_later = len(split.later)
        for entry in state.changes.disconnects:
            entry.followup_eval_id = ids.get(entry.allocation.id, entry.followup_eval_id)
        return split

    def _disconnect(self, disconnecting: Allocs, split: Rescheduling) -> None:
        """Marks the allocations unknown, and adds them to `split`."""
        state = self._state
        timeouts: list[tuple[int, Allocation]] = []
        for allocation in disconnecting.values():
            group = state.context.group_of(allocation)
            lost_after_ns = group.disconnect.lost_after_ns if group and group.disconnect else 0
            timeouts.append((state.context.now_ns + lost_after_ns, allocation))
        timeout_ids = self._followups.disconnect_timeout(timeouts)
        state.changes.disconnects += [
            Disconnect(a, timeout_ids.get(a.id, "")) for a in disconnecting.values()
        ]
        state.desired.disconnect = len(disconnecting)
        if state.group.disconnect is not None and not state.group.disconnect.replace:
            split.untainted.update(disconnecting)
            return
        own = split_by_reschedule(
            disconnecting, state.context, state.deployments.current, disconnecting=True
        )
        self.disconnecting = own.now
        state.desired.reschedule_now = len(own.now)
        split.untainted.update(own.untainted)
        split.now.update(own.now)
        split.later += own.later

    def delay_lost(self, lost: Allocs) -> dict[str, str]:
        """Lost allocation -> follow-up evaluation, for those whose agent stops them by itself
        later."""
        context = self._state.context
        later = []
        for allocation in lost.values():
            at_ns = client_stop_ns(allocation, context.group_of(allocation), context.now_ns)
            if at_ns is not None and at_ns > context.now_ns:
                later.append((at_ns, allocation))
        return self._followups.lost(later)
