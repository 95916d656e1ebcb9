"""Expires variable locks that are not renewed. A new leader restarts the TTL of every lock, and a
leader that stood still leaves that time out, so a lock may last longer than its TTL, never shorter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import structlog

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.standstill import wait_and_measure
from orchgit.control.wakeup import Wakeup
from orchgit.errors import ConflictError, NotFoundError, OrchgitError
from orchgit.model.variable import StoredVariable
from orchgit.replication.commands.variables import ReleaseVariableLock
from orchgit.replication.events import AppliedBatch
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Held:
    lock_id: str
    renew_index: int
    until_s: float


class VariableLocks:
    """Keeps one deadline per lock, which each renewal moves."""

    def __init__(self, state: ReplicatedState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._changed = Wakeup(clock)
        self._held: dict[tuple[str, str], _Held] = {}

    def restore(self, snapshot: Snapshot) -> None:
        for variable in snapshot.variables.locked():
            self._note(variable)

    def take(self, batch: AppliedBatch) -> None:
        keys = batch.changed.get("variable_locks", ())
        if not keys:
            return
        with self._state.store.snapshot() as snapshot:
            for key in keys:
                namespace, _, path = key.partition("/")
                variable = snapshot.variables.get(namespace, path)
                if variable is None or variable.lock is None:
                    self._held.pop((namespace, path), None)
                else:
                    self._note(variable)
        self._changed.set()

    async def run(self) -> None:
        while True:
            now_s = self._clock.monotonic_s()
            for place in [place for place, held in self._held.items() if held.until_s <= now_s]:
                await self._end(*place)
            stood_s = await wait_and_measure(self._changed, self._clock, self._until_next_s())
            if stood_s:  # renewals were not heard
                self._held = {
                    place: replace(held, until_s=held.until_s + stood_s)
                    for place, held in self._held.items()
                }

    # -- inside --------------------------------------------------------------------------------

    def _note(self, variable: StoredVariable) -> None:
        """Starts the lock's deadline if the lock is new or was renewed; a write by its holder
        renews nothing."""
        lock, place = variable.lock, (variable.namespace, variable.path)
        assert lock is not None
        known = self._held.get(place)
        if known and (known.lock_id, known.renew_index) == (lock.id, lock.renew_index):
            return
        until_s = self._clock.monotonic_s() + lock.ttl_ns / SECOND_NS
        self._held[place] = _Held(lock.id, lock.renew_index, until_s)

    def _until_next_s(self) -> float | None:
        if not self._held:
            return None
        return min(held.until_s for held in self._held.values()) - self._clock.monotonic_s()

    async def _end(self, namespace: str, path: str) -> None:
        held = self._held.get((namespace, path))
        if held is None:
            return
        command = ReleaseVariableLock(
            now_ns=self._clock.now_ns(),
            namespace=namespace,
            path=path,
            lock_id=held.lock_id,
            unrenewed_since=held.renew_index,
        )
        try:
            await self._state.propose(command)
            _log.info("lock of a variable expired", path=path)
        except (ConflictError, NotFoundError):
            _log.info("lock of a variable was renewed or released in time", path=path)
        except OrchgitError as error:
            _log.warning("cannot end the lock of a variable", path=path, error=str(error))
            if self._held.get((namespace, path)) == held:
                until_s = self._clock.monotonic_s() + _RETRY_S
                self._held[namespace, path] = _Held(held.lock_id, held.renew_index, until_s)
            return
        if self._held.get((namespace, path)) == held:  # else acquired or renewed meanwhile
            del self._held[namespace, path]
