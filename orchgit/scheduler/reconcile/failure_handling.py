"""What a group does about allocations that failed, were lost, disconnected or reconnected."""

from __future__ import annotations

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.scheduler.reconcile.changes import Allocs, Disconnect, union, without
from orchgit.scheduler.reconcile.classify import Classes
from orchgit.scheduler.reconcile.group_state import GroupState
from orchgit.scheduler.reconcile.reconnect import reconcile_reconnecting
from orchgit.scheduler.reconcile.reschedule import split_by_reschedule
from orchgit.scheduler.reconcile.stopping import client_stop_ns


class FailureHandling(GroupState):
    """Decides what is replaced now, what later, and what waits for its node."""

    def _handle_reconnecting(self, classes: Classes, everything: Allocs) -> None:
        if not classes.reconnecting:
            return
        kept, stops = reconcile_reconnecting(
            classes.reconnecting, everything, self._job, self._world.group_of
        )
        self._changes.stops += stops
        self._desired.stop += len(stops)
        back = [a for a in kept.values() if a.client_status != ClientStatus.UNKNOWN]
        self._changes.reconnects += back
        self._desired.reconnect = len(back)
        stopped = {stop.allocation.id: stop.allocation for stop in stops}
        self._returned = kept
        classes.untainted = without(classes.untainted, stopped)
        classes.migrate = without(classes.migrate, stopped)
        classes.lost = without(classes.lost, stopped)
        classes.disconnecting = without(classes.disconnecting, stopped)
        classes.expiring = without(classes.expiring, stopped)

    def _give_up_expired(self, classes: Classes) -> None:
        """What is not to be replaced stays unknown until its node comes back or it is stopped."""
        disconnect = self._group.disconnect
        if disconnect is None or disconnect.replace:
            classes.lost = union(classes.lost, classes.expiring)
        else:
            classes.untainted = union(classes.untainted, classes.expiring)

    def _reschedule(self, classes: Classes) -> tuple[Allocs, Allocs, bool]:
        """(what counts as it is, what is replaced now, whether something is replaced later)"""
        world = self._world
        # An original that stays counts again, heard of or not: its replacement is stopped.
        split = split_by_reschedule(
            union(classes.untainted, self._returned),
            world.group_of,
            self._deployments.current,
            is_batch=world.is_batch,
            disconnecting=False,
            eval_id=world.evaluation.id,
            now_ns=world.now_ns,
            counted=self._returned,
        )
        self._desired.ignore += split.waiting
        if classes.disconnecting:
            self._disconnect(classes.disconnecting, split.untainted, split.now, split.later)
        ids = self._followups.reschedule(split.later)
        self._changes.followup_of.update({a.id: (a, ids[a.id]) for _, a in split.later})
        self._desired.reschedule_later = len(split.later)
        for entry in self._changes.disconnects:
            entry.followup_eval_id = ids.get(entry.allocation.id, entry.followup_eval_id)
        return split.untainted, split.now, bool(split.later)

    def _disconnect(
        self,
        disconnecting: Allocs,
        untainted: Allocs,
        now: Allocs,
        later: list[tuple[int, Allocation]],
    ) -> None:
        world = self._world
        timeouts = [(world.now_ns + self._lost_after_ns(a), a) for a in disconnecting.values()]
        timeout_ids = self._followups.disconnect_timeout(timeouts)
        self._changes.disconnects += [
            Disconnect(a, timeout_ids.get(a.id, "")) for a in disconnecting.values()
        ]
        self._desired.disconnect = len(disconnecting)
        if self._group.disconnect is not None and not self._group.disconnect.replace:
            untainted.update(disconnecting)
            return
        split = split_by_reschedule(
            disconnecting,
            world.group_of,
            self._deployments.current,
            is_batch=world.is_batch,
            disconnecting=True,
            eval_id=world.evaluation.id,
            now_ns=world.now_ns,
        )
        self._disconnecting = split.now
        self._desired.reschedule_now = len(split.now)
        untainted.update(split.untainted)
        now.update(split.now)
        later += split.later

    def _lost_after_ns(self, allocation: Allocation) -> int:
        group = self._world.group_of(allocation)
        return group.disconnect.lost_after_ns if group and group.disconnect else 0

    def _delay_lost(self, lost: Allocs) -> dict[str, str]:
        """Lost allocations whose agent stops them by itself later: allocation -> evaluation."""
        later = []
        for allocation in lost.values():
            at_ns = client_stop_ns(allocation, self._world.group_of(allocation), self._world.now_ns)
            if at_ns is not None and at_ns > self._world.now_ns:
                later.append((at_ns, allocation))
        return self._followups.lost(later)
