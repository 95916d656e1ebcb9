"""Looks again at rollouts that wait at their gates: one loop on the leader.

A person, the time or the cluster may open a gate. The loop wakes the source of each rollout for
which that may be so; the source's own loop then decides and applies. All input is in the state, so
a new leader goes on where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from orchgit.errors import OrchgitError
from orchgit.gitops.gates.decide import may_go_on, waits_for_room, waits_for_sources
from orchgit.gitops.gates.source_readiness import unready_sources
from orchgit.model.base import NS_PER_S
from orchgit.model.rollout import Rollout
from orchgit.services.context import UseCaseContext
from orchgit.wait_first import wait_first

GATE_TRIGGER = "gate"
"""Why a round runs that looks at a waiting rollout again."""
_IDLE_WAIT_S = 300.0
_LONGEST_SLEEP_S = 60.0
_CAPACITY_PAUSE_S = 2.0
"""The least time between two looks because the cluster's capacity changed."""
_CAPACITY_TABLES = ("allocations", "nodes")

_log = structlog.get_logger(component="gitops")


class GateLoop:
    """Wakes sources whose waiting rollout may go on. `wake` gets the source's name."""

    def __init__(self, context: UseCaseContext, wake: Callable[[str], None]) -> None:
        self._context = context
        self._wake = wake
        self._opened: set[tuple[str, int]] = set()

    async def run(self) -> None:
        """Runs until cancelled."""
        seen_capacity = 0
        while True:
            try:
                with self._context.snapshot() as snapshot:
                    index, waiting = snapshot.index, snapshot.rollouts.waiting()
                    unready = {
                        rollout.id: unready_sources(snapshot, rollout.gates.depends_on)
                        for rollout in waiting
                        if rollout.gates is not None and waits_for_sources(rollout)
                    }
            except OrchgitError as error:
                _log.warning("cannot look at waiting rollouts", error=str(error))
                await self._context.clock.sleep(1.0)
                continue
            now_ns = self._context.now_ns()
            capacity = self._context.state.store.watch.index(_CAPACITY_TABLES)
            for rollout in waiting:
                if rollout.id in unready:
                    # It goes on where they are healthy now, and else records another reason.
                    reason = unready[rollout.id]
                    if not reason or reason not in waits_for_sources(rollout):
                        self._wake(rollout.source)
                else:
                    self._wake_if_open(rollout, now_ns, capacity != seen_capacity)
            seen_capacity = capacity
            self._opened &= {(each.id, each.modify_index) for each in waiting}
            await self._wait(waiting, index, now_ns)

    def _wake_if_open(self, rollout: Rollout, now_ns: int, capacity_changed: bool) -> None:
        """Wakes the rollout's source, once for each record of the rollout, or when the capacity
        changed for which it waits."""
        if not may_go_on(rollout, now_ns):
            return
        key = (rollout.id, rollout.modify_index)
        if key in self._opened and not (capacity_changed and waits_for_room(rollout)):
            return
        self._opened.add(key)
        self._wake(rollout.source)

    async def _wait(self, waiting: Sequence[Rollout], index: int, now_ns: int) -> None:
        """Waits for a change of a rollout, for the next opening of a window, or for a change of the
        capacity if some rollout waits for that."""
        openings = [each.gates.opens_time_ns for each in waiting if each.gates is not None]
        next_ns = min((each for each in openings if each > now_ns), default=None)
        tables: tuple[str, ...] = ("rollouts",)
        clock, watch = self._context.clock, self._context.state.store.watch
        if any(waits_for_sources(each) for each in waiting):
            tables += ("sources",)
        if any(waits_for_room(each) for each in waiting):
            await clock.sleep(_CAPACITY_PAUSE_S)
            tables += _CAPACITY_TABLES
        change = watch.wait(tables, index, _IDLE_WAIT_S)
        if next_ns is None:
            await change
            return
        # A clock that is set meanwhile makes the wait wrong, so it is never long.
        left_s = min((next_ns - now_ns) / NS_PER_S, _LONGEST_SLEEP_S)
        async with wait_first(change, clock.sleep(left_s)):
            pass
