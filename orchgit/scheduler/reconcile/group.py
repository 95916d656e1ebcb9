"""One group of a service or batch job: its allocations against its count and its deployment."""

from __future__ import annotations

from orchgit.model.allocation import ClientStatus
from orchgit.scheduler.reconcile.changes import (
    LOST,
    NOT_NEEDED,
    Allocs,
    Placement,
    Stop,
    by_name,
    union,
    without,
)
from orchgit.scheduler.reconcile.classify import Classes
from orchgit.scheduler.reconcile.failure_handling import FailureHandling
from orchgit.scheduler.reconcile.group_state import DESTRUCTIVE, IN_PLACE
from orchgit.scheduler.reconcile.names import NameIndex
from orchgit.scheduler.reconcile.rolling_update import RollingUpdate
from orchgit.scheduler.reconcile.stopping import choose_stops


class GroupReconciler(FailureHandling, RollingUpdate):
    """Runs once; fills the changes. `run` is the order of the decisions."""

    def run(self, everything: Allocs) -> bool:
        """Whether the group's part of the deployment is complete."""
        if not everything:
            return self._fill_up()
        places_before = len(self._changes.places)
        in_play = self._drop_ended(everything)
        allocs = self._stop_old_canaries(in_play)
        canaries, allocs = self._current_canaries(allocs)
        classes = self._classify(allocs)
        self._handle_reconnecting(classes, everything)
        self._give_up_expired(classes)
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
        self._tell_apart(names, untainted, places_before)
        self._join_deployment(in_play, destructive)
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

    def _fill_up(self) -> bool:
        """`run` where there are none but steady ones: place what is missing."""
        self._desired.ignore += len(self._steady)
        names = NameIndex(self._group.count, (), self._steady.name_indexes)
        place = self._placements(names, {}, Classes(), {})
        if not self._in_deployment:
            self._state.desired_total += len(place)
        self._place_missing(place, {}, {}, self._group.count)
        self._join_deployment({}, {})
        return not place and self._is_complete()

    def _drop_ended(self, allocs: Allocs) -> Allocs:
        """Without those that the servers ended: what they leave is missing, and no trace of an
        earlier run. A batch job runs ended ones of older versions again too, and looks once more
        at stopped ones that are to be rescheduled."""
        if not self._world.is_batch:
            return {i: a for i, a in allocs.items() if not a.is_server_terminal}
        ended = {
            alloc_id: a
            for alloc_id, a in allocs.items()
            if (a.is_server_terminal and not a.desired_transition.reschedule)
            or (a.is_terminal and a.job_version < self._job.version)
        }
        self._desired.ignore += len(ended)
        return without(allocs, ended)

    def _names(self, untainted: Allocs, classes: Classes, now: Allocs) -> NameIndex:
        known = union(untainted, classes.migrate, now, classes.lost)
        return NameIndex(self._group.count, known.values(), self._steady.name_indexes)

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

    def _tell_apart(self, names: NameIndex, untainted: Allocs, places_before: int) -> None:
        """A replacement does not take over a name that another allocation goes by."""
        replacing = [
            placement
            for placement in [*self._changes.destructive, *self._changes.places[places_before:]]
            if placement.group is self._group and placement.previous and not placement.canary
        ]
        gone = {placement.previous.id for placement in replacing if placement.previous}
        taken = set(self._steady.name_indexes)
        taken.update(
            a.name_index
            for a in untainted.values()
            if a.id not in gone and a.client_status != ClientStatus.UNKNOWN
        )
        for placement in replacing:
            if placement.name_index in taken:
                free = names.lowest_free()
                placement.name_index = placement.name_index if free is None else free
            taken.add(placement.name_index)

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
        self._desired.ignore += len(self._steady)
        self._desired.in_place_update += len(in_place)
        self._changes.in_place += in_place.values()
        return in_place, destructive

    def _placements(
        self, names: NameIndex, untainted: Allocs, classes: Classes, now: Allocs
    ) -> list[Placement]:
        count = self._group.count
        place = [self._replacement(a, rescheduling=True) for a in by_name(now)]
        existing = len(self._steady) + len(untainted) + len(classes.migrate) + len(now)
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
