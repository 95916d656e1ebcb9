"""One group of a service or batch job: its allocations against its count and its deployment."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.model.allocation import ClientStatus
from orchgit.scheduler.reconcile.changes import (
    LOST,
    MIGRATING,
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
from orchgit.scheduler.reconcile.followups import Followups
from orchgit.scheduler.reconcile.group_state import DESTRUCTIVE, IN_PLACE, GroupState
from orchgit.scheduler.reconcile.names import NameIndex
from orchgit.scheduler.reconcile.rolling_update import RollingUpdate
from orchgit.scheduler.reconcile.stopping import choose_stops


@dataclass(slots=True)
class GroupReconciler:
    """Runs once and fills the changes of its state. `run` is the order of the decisions."""

    _state: GroupState
    _followups: Followups

    def run(self, everything: Allocs) -> bool:
        """Whether the group's part of the deployment is complete."""
        state, rolling = self._state, RollingUpdate(self._state)
        failures = FailureHandling(state, self._followups)
        if not everything:
            return self._fill_up(rolling)
        places_before = len(state.changes.places)
        in_play = self._drop_ended(everything)
        allocs = rolling.stop_old_canaries(in_play)
        canaries, allocs = rolling.current_canaries(allocs)
        classes = state.classify(allocs)
        failures.handle_reconnecting(classes, everything)
        failures.give_up_expired(classes)
        split = failures.reschedule(classes)
        untainted, due = split.untainted, split.now
        lost_later = failures.delay_lost(classes.lost)
        known = union(untainted, classes.migrate, due, classes.lost)
        names = NameIndex(state.group.count, known.values(), state.steady.name_indexes)
        untainted = self._stop_surplus(names, untainted, classes, canaries, lost_later)
        in_place, destructive = self._updates(untainted)
        if not state.in_deployment:
            state.progress.desired_total += len(destructive) + len(in_place)
        if state.is_canarying:
            untainted = without(untainted, canaries)
        wants_canaries = rolling.place_canaries(names, destructive, canaries)
        limit = rolling.update_limit(untainted, destructive, classes.migrate)
        place = [] if lost_later else self._placements(names, untainted, classes, due)
        if not state.in_deployment:
            state.progress.desired_total += len(place)
        limit = rolling.place_missing(place, due, failures.disconnecting, classes.lost, limit)
        rolling.replace_destructive(destructive, limit)
        self._migrate(classes.migrate)
        self._keep_names_apart(names, untainted, places_before)
        rolling.join_deployment(in_play, destructive)
        busy = bool(
            destructive
            or in_place
            or place
            or classes.migrate
            or due
            or split.later
            or wants_canaries
        )
        return not busy and rolling.is_complete()

    def _fill_up(self, rolling: RollingUpdate) -> bool:
        """`run` where all allocations are steady: places what is missing."""
        state = self._state
        state.desired.ignore += len(state.steady)
        names = NameIndex(state.group.count, (), state.steady.name_indexes)
        place = self._placements(names, {}, Classes(), {})
        if not state.in_deployment:
            state.progress.desired_total += len(place)
        rolling.place_missing(place, {}, {}, {}, state.group.count)
        rolling.join_deployment({}, {})
        return not place and rolling.is_complete()

    def _drop_ended(self, allocs: Allocs) -> Allocs:
        """Returns the allocations without those that the servers ended: the room that they leave
        is missing, and they are no trace of an earlier run. A batch job runs ended allocations of
        older versions again too, and looks once more at stopped ones that are to be rescheduled."""
        if not self._state.context.is_batch:
            return {i: a for i, a in allocs.items() if not a.is_server_terminal}
        ended = {
            alloc_id: a
            for alloc_id, a in allocs.items()
            if (a.is_server_terminal and not a.desired_transition.reschedule)
            or (a.is_terminal and a.job_version < self._state.job.version)
        }
        self._state.desired.ignore += len(ended)
        return without(allocs, ended)

    def _stop_surplus(
        self,
        names: NameIndex,
        untainted: Allocs,
        classes: Classes,
        canaries: Allocs,
        lost_later: dict[str, str],
    ) -> Allocs:
        """Stops the lost allocations and those above the count; returns the rest of `untainted`."""
        state = self._state
        for allocation in classes.lost.values():
            followup = lost_later.get(allocation.id, "")
            state.changes.stops.append(Stop(allocation, LOST, ClientStatus.LOST, followup))
        surplus = choose_stops(
            names,
            state.group.count,
            untainted,
            classes.migrate,
            canaries,
            is_canarying=state.is_canarying,
        )
        state.stop(surplus, NOT_NEEDED)
        state.desired.stop += len(classes.lost) + len(surplus)
        classes.migrate = without(classes.migrate, surplus)
        return without(untainted, surplus)

    def _updates(self, untainted: Allocs) -> tuple[Allocs, Allocs]:
        """Returns (allocations to update in place, allocations to replace)."""
        state = self._state
        in_place: Allocs = {}
        destructive: Allocs = {}
        for alloc_id, allocation in untainted.items():
            kind = state.context.update_kind(allocation, state.group)
            if kind == IN_PLACE:
                in_place[alloc_id] = allocation
            elif kind == DESTRUCTIVE:
                destructive[alloc_id] = allocation
            else:
                state.desired.ignore += 1
        state.desired.ignore += len(state.steady)
        state.desired.in_place_update += len(in_place)
        state.changes.in_place += in_place.values()
        return in_place, destructive

    def _placements(
        self, names: NameIndex, untainted: Allocs, classes: Classes, due: Allocs
    ) -> list[Placement]:
        """What is to be placed: replacements of what is due, of what was lost as long as the count
        is not reached, then new names."""
        state, count = self._state, self._state.group.count
        place = [state.replacement(a, rescheduling=True) for a in by_name(due)]
        existing = len(state.steady) + len(untainted) + len(classes.migrate) + len(due)
        for allocation in by_name(classes.lost):
            if existing >= count:
                break
            existing += 1
            place.append(state.replacement(allocation, lost=True))
        if existing < count:
            place += [
                Placement(state.group, index, downgrade=state.is_canarying)
                for index in names.next(count - existing)
            ]
        return place

    def _migrate(self, migrate: Allocs) -> None:
        state = self._state
        state.desired.migrate += len(migrate)
        for allocation in by_name(migrate):
            state.changes.stops.append(Stop(allocation, MIGRATING))
            transition = allocation.desired_transition
            if not transition.migrate_disable_placement:
                # A person stopped it: only a batch job counts that as an attempt.
                rescheduling = state.context.is_batch and bool(transition.reschedule)
                state.changes.places.append(
                    state.replacement(allocation, rescheduling=rescheduling)
                )
                state.desired.place += rescheduling

    def _keep_names_apart(self, names: NameIndex, untainted: Allocs, places_before: int) -> None:
        """Gives a replacement another name where its own is that of an allocation that stays."""
        state = self._state
        replacing = [
            placement
            for placement in [*state.changes.destructive, *state.changes.places[places_before:]]
            if placement.group is state.group and placement.previous and not placement.canary
        ]
        gone = {placement.previous.id for placement in replacing if placement.previous}
        taken = set(state.steady.name_indexes)
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
