"""How far a new version may go now: canaries, the limit of parallel updates, the deployment."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.model.allocation import ClientStatus
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


@dataclass(slots=True)
class RollingUpdate:
    """Decides under the group's update block, and under the deployment as it stands."""

    _state: GroupState

    def stop_old_canaries(self, allocs: Allocs) -> Allocs:
        """Stops the canaries of an older or a failed deployment that were never promoted; returns
        the other allocations."""
        deployments = self._state.deployments
        unwanted: list[str] = []
        for deployment, relevant in (
            (deployments.old, True),
            (deployments.current, deployments.is_failed),
        ):
            if deployment is None or not relevant:
                continue
            for progress in deployment.task_groups.values():
                if progress.desired_canaries > 0 and not progress.promoted:
                    unwanted += progress.placed_canaries or ()
        old = {i: allocs[i] for i in unwanted if i in allocs}
        live = {i: a for i, a in old.items() if not a.is_server_terminal}
        self._state.stop(live, NOT_NEEDED)
        self._state.desired.stop += len(live)
        return without(allocs, old)

    def current_canaries(self, allocs: Allocs) -> tuple[Allocs, Allocs]:
        """Returns (canaries that go on, the rest); canaries on lost nodes are made anew."""
        state = self._state
        current = state.deployments.current
        progress = current.task_groups.get(state.group.name) if current is not None else None
        ids = (progress.placed_canaries or ()) if progress is not None else ()
        placed = {i: allocs[i] for i in ids if i in allocs}
        if not placed:
            return {}, allocs
        classes = state.classify(placed)
        state.stop(classes.migrate, MIGRATING)
        live_lost = {i: a for i, a in classes.lost.items() if not a.is_terminal}
        state.stop(live_lost, LOST, ClientStatus.LOST)
        going_on = union(classes.untainted, classes.disconnecting, classes.reconnecting)
        return going_on, without(allocs, classes.migrate, classes.lost)

    def place_canaries(self, names: NameIndex, destructive: Allocs, canaries: Allocs) -> bool:
        """Whether the new version needs canaries that are not there yet."""
        state, update = self._state, self._state.group.update
        if (
            update is None
            or not destructive
            or len(canaries) >= update.canary
            or state.progress.promoted
        ):
            return False
        state.progress.desired_canaries = update.canary
        if not (state.deployments.is_paused or state.deployments.is_failed):
            missing = update.canary - len(canaries)
            state.desired.canary += missing
            now = min(missing, state.group.count)
            if missing > now:
                state.desired.place += now
            indexes = names.next_canaries(now, canaries.values(), destructive.values())
            state.changes.places += [Placement(state.group, i, canary=True) for i in indexes]
        return True

    def update_limit(self, untainted: Allocs, destructive: Allocs, migrate: Allocs) -> int:
        """How many allocations may be replaced by a newer version now."""
        state = self._state
        if not has_deployments(state.group.update) or not (destructive or migrate):
            return state.group.count
        if not state.may_roll:
            return 0
        assert state.group.update is not None, "has_deployments says so"
        limit = state.group.update.max_parallel
        current = state.deployments.current
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

    def place_missing(
        self, place: list[Placement], due: Allocs, disconnecting: Allocs, lost: Allocs, limit: int
    ) -> int:
        """Places what is missing. Where nothing may roll, only what was lost or is due.

        `due` are replaced now; those that are unknown or `disconnecting` are not stopped for it.
        Returns what is left of `limit`.
        """
        state = self._state
        unknown = {i: a for i, a in due.items() if a.client_status == ClientStatus.UNKNOWN}
        failed = without(due, disconnecting, unknown)
        if state.may_roll:
            state.desired.place += len(place)
            state.changes.places += place
            state.stop(failed, RESCHEDULED)
            state.desired.stop += len(failed)
            return limit - min(len(place), limit)
        if lost:
            allowed = min(len(lost), len(place))
            state.desired.place += allowed
            state.changes.places += place[:allowed]
        for placement in place if due else ():
            self._replace_due(placement, failed)
        return limit

    def _replace_due(self, placement: Placement, failed: Allocs) -> None:
        """Replaces what is due although nothing may roll, but for allocations of a failed
        deployment."""
        state, previous = self._state, placement.previous
        current = state.deployments.current
        part_of_failed = (
            state.deployments.is_failed
            and previous is not None
            and current is not None
            and previous.deployment_id == current.id
        )
        if part_of_failed or not placement.rescheduling or previous is None:
            return
        if placement not in state.changes.places:
            state.changes.places.append(placement)
            state.desired.place += 1
        if previous.id in failed:
            state.changes.stops.append(Stop(previous, RESCHEDULED))
            state.desired.stop += 1

    def replace_destructive(self, destructive: Allocs, limit: int) -> None:
        state = self._state
        if not state.may_roll:
            state.desired.ignore += len(destructive)
            return
        chosen = by_name(destructive)[:limit]
        state.desired.destructive_update += len(chosen)
        state.desired.ignore += len(destructive) - len(chosen)
        state.changes.destructive += [
            Placement(state.group, a.name_index, previous=a, stops_previous=True) for a in chosen
        ]

    def join_deployment(self, everything: Allocs, destructive: Allocs) -> None:
        """Adds the group to the deployment if this evaluation changes what runs. For a group that
        is in it already, records canaries that are wanted anew."""
        state = self._state
        current = state.deployments.current
        if state.in_deployment:
            name, wanted = state.group.name, state.progress.desired_canaries
            joins = current is not None and current.task_groups[name].desired_canaries != wanted
        elif (
            not has_deployments(state.group.update)
            or state.context.is_batch
            or state.progress.desired_total == 0
        ):
            joins = False
        else:
            ran_before = bool(state.steady) or any(
                a.job_version == state.job.version for a in everything.values()
            )
            joins = not ran_before or bool(destructive or state.desired.in_place_update)
        if joins:
            state.deployments.add_group(
                state.group.name,
                state.progress,
                state.job,
                state.context.evaluation,
                state.context.ids,
            )

    def is_complete(self) -> bool:
        """Whether the current deployment has all that it wants of the group."""
        current = self._state.deployments.current
        name = self._state.group.name
        return current is not None and is_group_complete(current.task_groups.get(name))
