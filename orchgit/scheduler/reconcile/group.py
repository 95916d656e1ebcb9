"""One group of a service or batch job: its allocations against its count and its deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.deployment import DeploymentState
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import NodeStatus
from orchgit.scheduler.reconcile.changes import (
    LOST,
    MIGRATING,
    NOT_NEEDED,
    RESCHEDULED,
    Allocs,
    Changes,
    Disconnect,
    Placement,
    Stop,
    by_name,
    union,
    without,
)
from orchgit.scheduler.reconcile.classify import Classes, classify
from orchgit.scheduler.reconcile.deployments import (
    DeploymentPlan,
    has_deployments,
    is_group_complete,
)
from orchgit.scheduler.reconcile.followups import Followups
from orchgit.scheduler.reconcile.names import NameIndex
from orchgit.scheduler.reconcile.reconnect import reconcile_reconnecting
from orchgit.scheduler.reconcile.reschedule import (
    Rescheduling,
    had_no_placement,
    split_by_reschedule,
)
from orchgit.scheduler.reconcile.stopping import choose_stops, client_stop_ns

if TYPE_CHECKING:
    from orchgit.scheduler.reconcile.service import World

IGNORE, IN_PLACE, DESTRUCTIVE = "ignore", "in-place", "destructive"
UpdateKind = Callable[[Allocation, TaskGroup], str]


class GroupReconciler:
    """Runs once; fills `changes`."""

    def __init__(
        self,
        world: World,
        job: Job,
        group: TaskGroup,
        deployments: DeploymentPlan,
        followups: Followups,
        changes: Changes,
    ) -> None:
        self._world = world
        self._job = job
        self._group = group
        self._deployments = deployments
        self._followups = followups
        self._changes = changes
        self._desired = DesiredUpdates()
        self._state, self._in_deployment = deployments.group_state(group)
        self._disconnecting: Allocs = {}
        changes.desired[group.name] = self._desired

    def run(self, everything: Allocs) -> bool:
        """Whether the group's part of the deployment is complete."""
        allocs = self._drop_old_batch(everything)
        allocs = self._stop_old_canaries(allocs)
        canaries, allocs = self._current_canaries(allocs)
        classes = self._classify(allocs)
        self._desired.ignore += len(classes.ignored)
        self._handle_reconnecting(classes, everything)
        classes.lost = union(classes.lost, classes.expiring)
        untainted, reschedule_now, later = self._reschedule(classes)
        lost_later = self._delay_lost(classes.lost)
        names = self._names(untainted, classes, reschedule_now)
        untainted = self._stop_surplus(names, untainted, classes, canaries, lost_later)
        in_place, destructive = self._updates(untainted)
        if not self._in_deployment:
            self._state.desired_total += len(destructive) + len(in_place)
        if self._is_canarying:
            untainted = without(untainted, canaries)
        wants_canaries = self._place_canaries(names, destructive, canaries)
        limit = self._update_limit(untainted, destructive, classes.migrate)
        place = [] if lost_later else self._placements(names, untainted, classes, reschedule_now)
        if not self._in_deployment:
            self._state.desired_total += len(place)
        limit = self._place_missing(place, reschedule_now, classes.lost, limit)
        self._replace_destructive(destructive, limit)
        self._migrate(classes.migrate)
        self._join_deployment(everything, destructive)
        busy = bool(
            destructive
            or in_place
            or place
            or classes.migrate
            or reschedule_now
            or later
            or wants_canaries
        )
        return not busy and self._is_complete()

    # --- what is out of play --------------------------------------------------------------

    def _drop_old_batch(self, allocs: Allocs) -> Allocs:
        """Batch allocations that the servers ended, and ended ones of older versions: the job
        runs them again."""
        if not self._world.is_batch:
            return allocs
        old = {
            alloc_id: a
            for alloc_id, a in allocs.items()
            if (a.is_server_terminal and not had_no_placement(a))
            or (a.is_terminal and a.job_version < self._job.version)
        }
        self._desired.ignore += len(old)
        return without(allocs, old)

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
        live = [a for a in old.values() if not a.is_terminal]
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
        return classes.untainted, without(allocs, classes.migrate, classes.lost)

    def _classify(self, allocs: Allocs) -> Classes:
        world = self._world
        return classify(allocs, world.tainted, world.group_of, world.now_ns)

    # --- disconnected, reconnected, failed, lost ------------------------------------------

    def _handle_reconnecting(self, classes: Classes, everything: Allocs) -> None:
        if not classes.reconnecting:
            return
        kept, stops = reconcile_reconnecting(
            classes.reconnecting, everything, self._job, self._world.group_of
        )
        self._changes.stops += stops
        self._desired.stop += len(stops)
        self._changes.reconnects += kept.values()
        self._desired.reconnect = len(kept)
        stopped = {stop.allocation.id: stop.allocation for stop in stops}
        classes.untainted = union(without(classes.untainted, stopped), kept)
        classes.migrate = without(classes.migrate, stopped)
        classes.lost = without(classes.lost, stopped)
        classes.disconnecting = without(classes.disconnecting, stopped)
        classes.expiring = without(classes.expiring, stopped)

    def _reschedule(self, classes: Classes) -> tuple[Allocs, Allocs, bool]:
        """(what counts as it is, what is replaced now, whether something is replaced later)"""
        world = self._world
        split = split_by_reschedule(
            classes.untainted,
            world.group_of,
            self._deployments.current,
            is_batch=world.is_batch,
            disconnecting=False,
            eval_id=world.evaluation.id,
            now_ns=world.now_ns,
        )
        if classes.disconnecting:
            self._disconnect(classes.disconnecting, split.untainted, split.now, split.later)
        self._hurry(split)
        ids = self._followups.reschedule(split.later)
        self._changes.followup_of.update({a.id: (a, ids[a.id]) for _, a in split.later})
        self._desired.reschedule_later = len(split.later)
        for entry in self._changes.disconnects:
            entry.followup_eval_id = ids.get(entry.allocation.id, entry.followup_eval_id)
        return split.untainted, split.now, bool(split.later)

    def _hurry(self, split: Rescheduling) -> None:
        """Failed allocations on nodes that are away do not wait: nothing can be recorded on such
        a node, so nothing would keep the delay."""
        for entry in list(split.later):
            allocation = entry[1]
            node = self._world.tainted.get(allocation.node_id)
            is_away = allocation.node_id in self._world.tainted and (
                node is None or node.status != NodeStatus.READY
            )
            if is_away and allocation.is_client_terminal:
                split.later.remove(entry)
                split.untainted.pop(allocation.id, None)
                split.now[allocation.id] = allocation

    def _disconnect(
        self,
        disconnecting: Allocs,
        untainted: Allocs,
        now: Allocs,
        later: list[tuple[int, Allocation]],
    ) -> None:
        world = self._world
        timeouts = [
            (world.now_ns + lost_after_ns, a)
            for a in disconnecting.values()
            if (lost_after_ns := self._lost_after_ns(a)) > 0
        ]
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

    # --- counts ---------------------------------------------------------------------------

    def _names(self, untainted: Allocs, classes: Classes, now: Allocs) -> NameIndex:
        known = union(untainted, classes.migrate, now, classes.lost)
        return NameIndex(self._group.count, known.values())

    def _stop_surplus(
        self,
        names: NameIndex,
        untainted: Allocs,
        classes: Classes,
        canaries: Allocs,
        lost_later: dict[str, str],
    ) -> Allocs:
        """Stops the lost ones and what exceeds the count; what is left of `untainted`."""
        for allocation in classes.lost.values():
            followup = lost_later.get(allocation.id, "")
            self._changes.stops.append(Stop(allocation, LOST, ClientStatus.LOST, followup))
        surplus = choose_stops(
            names,
            self._group.count,
            untainted,
            classes.migrate,
            canaries,
            is_canarying=self._is_canarying,
        )
        self._changes.stops += [Stop(a, NOT_NEEDED) for a in surplus.values()]
        self._desired.stop += len(classes.lost) + len(surplus)
        classes.migrate = without(classes.migrate, surplus)
        return without(untainted, surplus)

    def _updates(self, untainted: Allocs) -> tuple[Allocs, Allocs]:
        in_place: Allocs = {}
        destructive: Allocs = {}
        for alloc_id, allocation in untainted.items():
            kind = self._world.update_kind(allocation, self._group)
            if kind == IN_PLACE:
                in_place[alloc_id] = allocation
            elif kind == DESTRUCTIVE:
                destructive[alloc_id] = allocation
            else:
                self._desired.ignore += 1
        self._desired.in_place_update += len(in_place)
        self._changes.in_place += in_place.values()
        return in_place, destructive

    def _placements(
        self, names: NameIndex, untainted: Allocs, classes: Classes, now: Allocs
    ) -> list[Placement]:
        count = self._group.count
        place = [self._replacement(a, rescheduling=True) for a in by_name(now)]
        existing = len(untainted) + len(classes.migrate) + len(now)
        for allocation in by_name(classes.lost):
            if existing >= count:
                break
            existing += 1
            place.append(self._replacement(allocation, lost=True))
        if existing < count:
            place += [
                Placement(self._group, index, downgrade=self._is_canarying)
                for index in names.next(count - existing)
            ]
        return place

    def _replacement(
        self, allocation: Allocation, *, rescheduling: bool = False, lost: bool = False
    ) -> Placement:
        status = allocation.deployment_status
        canary = status is not None and status.canary
        return Placement(
            self._group,
            allocation.name_index,
            previous=allocation,
            canary=canary,
            rescheduling=rescheduling,
            lost=lost,
            downgrade=self._is_canarying and not canary,
            min_version=allocation.job_version,
        )

    # --- rolling --------------------------------------------------------------------------

    @property
    def _is_canarying(self) -> bool:
        return self._state.desired_canaries > 0 and not self._state.promoted

    @property
    def _may_roll(self) -> bool:
        stuck = self._deployments.is_paused or self._deployments.is_failed
        return not stuck and not self._is_canarying

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
        for placement in place if failed else ():
            self._place_failed(placement)
        return limit

    def _place_failed(self, placement: Placement) -> None:
        """A failed allocation of the failed deployment itself is not tried again."""
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
                self._changes.places.append(
                    self._replacement(allocation, rescheduling=bool(transition.reschedule))
                )
                if transition.reschedule:
                    self._desired.place += 1

    # --- the deployment -------------------------------------------------------------------

    def _join_deployment(self, everything: Allocs, destructive: Allocs) -> None:
        if (
            self._in_deployment
            or not has_deployments(self._group.update)
            or self._world.is_batch
            or self._state.desired_total == 0
        ):
            self._keep_canary_state()
            return
        ran_before = any(a.job_version == self._job.version for a in everything.values())
        if ran_before and not destructive and not self._changes.in_place:
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
