"""How far a new version may go now: canaries, the limit of parallel updates, the deployment."""

from __future__ import annotations

from orchgit.model.allocation import ClientStatus
from orchgit.model.deployment import DeploymentState
from orchgit.scheduler.reconcile.changes import (
    LOST,
    MIGRATING,
    NOT_NEEDED,
    RESCHEDULED,
    Allocs,
    Placement,
    Stop,
    by_name,
    union,
    without,
)
from orchgit.scheduler.reconcile.deployments import has_deployments, is_group_complete
from orchgit.scheduler.reconcile.group_state import GroupState
from orchgit.scheduler.reconcile.names import NameIndex


class RollingUpdate(GroupState):
    """Decides under the group's update block, and under the deployment as it stands."""

    def _stop_old_canaries(self, allocs: Allocs) -> Allocs:
        """Canaries of an older or a failed deployment that were never promoted."""
        unwanted: list[str] = []
        for deployment, relevant in (
            (self._deployments.old, True),
            (self._deployments.current, self._deployments.is_failed),
        ):
            if deployment is None or not relevant:
                continue
            for state in deployment.task_groups.values():
                if state.desired_canaries > 0 and not state.promoted:
                    unwanted += state.placed_canaries or ()
        old = {i: allocs[i] for i in unwanted if i in allocs}
        live = [a for a in old.values() if not a.is_server_terminal]
        self._changes.stops += [Stop(a, NOT_NEEDED) for a in live]
        self._desired.stop += len(live)
        return without(allocs, old)

    def _current_canaries(self, allocs: Allocs) -> tuple[Allocs, Allocs]:
        """(canaries that go on, the rest); canaries on lost nodes are made anew."""
        current = self._deployments.current
        state = current.task_groups.get(self._group.name) if current is not None else None
        ids = (state.placed_canaries or ()) if state is not None else ()
        placed = {i: allocs[i] for i in ids if i in allocs}
        if not placed:
            return {}, allocs
        classes = self._classify(placed)
        self._changes.stops += [Stop(a, MIGRATING) for a in classes.migrate.values()]
        self._changes.stops += [
            Stop(a, LOST, ClientStatus.LOST) for a in classes.lost.values() if not a.is_terminal
        ]
        going_on = union(classes.untainted, classes.disconnecting, classes.reconnecting)
        return going_on, without(allocs, classes.migrate, classes.lost)

    def _place_canaries(self, names: NameIndex, destructive: Allocs, canaries: Allocs) -> bool:
        update = self._group.update
        if (
            update is None
            or not destructive
            or len(canaries) >= update.canary
            or self._state.promoted
        ):
            return False
        self._state.desired_canaries = update.canary
        if not (self._deployments.is_paused or self._deployments.is_failed):
            missing = update.canary - len(canaries)
            self._desired.canary += missing
            now = min(missing, self._group.count)
            if missing > now:
                self._desired.place += now
            indexes = names.next_canaries(now, canaries.values(), destructive.values())
            self._changes.places += [Placement(self._group, i, canary=True) for i in indexes]
        return True

    def _update_limit(self, untainted: Allocs, destructive: Allocs, migrate: Allocs) -> int:
        """How many allocations may be replaced by a newer version now."""
        if not has_deployments(self._group.update) or not (destructive or migrate):
            return self._group.count
        if not self._may_roll:
            return 0
        assert self._group.update is not None, "has_deployments says so"
        limit = self._group.update.max_parallel
        current = self._deployments.current
        if current is None:
            return limit
        for allocation in untainted.values():
            if allocation.deployment_id != current.id:
                continue
            status = allocation.deployment_status
            if status is not None and status.healthy is False:
                return 0
            if status is None or status.healthy is None:
                limit -= 1
        return max(limit, 0)

    def _place_missing(self, place: list[Placement], now: Allocs, lost: Allocs, limit: int) -> int:
        """What may be placed although nothing may roll: what was lost or has failed."""
        unknown = {i: a for i, a in now.items() if a.client_status == ClientStatus.UNKNOWN}
        failed = without(now, self._disconnecting, unknown)
        if self._may_roll:
            self._desired.place += len(place)
            self._changes.places += place
            self._changes.stops += [Stop(a, RESCHEDULED) for a in failed.values()]
            self._desired.stop += len(failed)
            return limit - min(len(place), limit)
        if lost:
            allowed = min(len(lost), len(place))
            self._desired.place += allowed
            self._changes.places += place[:allowed]
        for placement in place if now else ():
            self._replace_due(placement, failed)
        return limit

    def _replace_due(self, placement: Placement, failed: Allocs) -> None:
        """What is due is replaced all the same, but for allocations of a failed deployment. What
        is out of touch and not `failed` is not stopped for it."""
        previous = placement.previous
        current = self._deployments.current
        part_of_failed = (
            self._deployments.is_failed
            and previous is not None
            and current is not None
            and previous.deployment_id == current.id
        )
        if part_of_failed or not placement.rescheduling or previous is None:
            return
        if placement not in self._changes.places:
            self._changes.places.append(placement)
            self._desired.place += 1
        if previous.id in failed:
            self._changes.stops.append(Stop(previous, RESCHEDULED))
            self._desired.stop += 1

    def _replace_destructive(self, destructive: Allocs, limit: int) -> None:
        if not self._may_roll:
            self._desired.ignore += len(destructive)
            return
        chosen = by_name(destructive)[:limit]
        self._desired.destructive_update += len(chosen)
        self._desired.ignore += len(destructive) - len(chosen)
        self._changes.destructive += [
            Placement(self._group, a.name_index, previous=a, stops_previous=True) for a in chosen
        ]

    def _migrate(self, migrate: Allocs) -> None:
        self._desired.migrate += len(migrate)
        for allocation in by_name(migrate):
            self._changes.stops.append(Stop(allocation, MIGRATING))
            transition = allocation.desired_transition
            if not transition.migrate_disable_placement:
                # Somebody stopped it: only a batch job counts that as an attempt.
                rescheduling = self._world.is_batch and bool(transition.reschedule)
                self._changes.places.append(
                    self._replacement(allocation, rescheduling=rescheduling)
                )
                self._desired.place += rescheduling

    def _join_deployment(self, everything: Allocs, destructive: Allocs) -> None:
        if (
            self._in_deployment
            or not has_deployments(self._group.update)
            or self._world.is_batch
            or self._state.desired_total == 0
        ):
            self._keep_canary_state()
            return
        ran_before = bool(self._steady) or any(
            a.job_version == self._job.version for a in everything.values()
        )
        if ran_before and not destructive and not self._desired.in_place_update:
            return
        self._deployments.add_group(
            self._group.name, self._state, self._job, self._world.evaluation, self._world.ids
        )

    def _keep_canary_state(self) -> None:
        """Canaries wanted anew for a group that is in the deployment already are recorded."""
        current = self._deployments.current
        if not self._in_deployment or current is None:
            return
        if current.task_groups[self._group.name].desired_canaries != self._state.desired_canaries:
            self._deployments.add_group(
                self._group.name, self._state, self._job, self._world.evaluation, self._world.ids
            )

    def _is_complete(self) -> bool:
        current = self._deployments.current
        states: dict[str, DeploymentState] = current.task_groups if current is not None else {}
        return current is not None and is_group_complete(states.get(self._group.name))
