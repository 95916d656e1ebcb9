"""Records whether host volumes are available: a volume is unavailable while its node is down,
unknown, or does not report the volume. `EvalIntake` unblocks the evaluations that wait for a volume
when it becomes ready."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from orchgit.clock import Clock
from orchgit.control.large_reads import read_state
from orchgit.control.wakeup import Wakeup
from orchgit.errors import OrchgitError
from orchgit.model.node import Node, NodeStatus
from orchgit.model.volume import HostVolume
from orchgit.replication.commands.volumes import SetHostVolumeStates
from orchgit.replication.events import AppliedBatch
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

READY, UNAVAILABLE = "ready", "unavailable"
_RETRY_S = 1.0


def state_of(volume: HostVolume, node: Node | None) -> str:
    """Returns the state that the volume should have; a volume that is still being created keeps its
    state."""
    if volume.state not in (READY, UNAVAILABLE):
        return volume.state
    if node is None or node.status == NodeStatus.DOWN:
        return UNAVAILABLE
    reported = {known.id for known in node.host_volumes.values()}
    return READY if volume.id in reported else UNAVAILABLE


class VolumeWatcher:
    """Updates a node's volumes whenever the node changes."""

    def __init__(self, state: ReplicatedState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._changed = Wakeup(clock)
        self._marked: set[str] = set()

    def restore(self, snapshot: Snapshot) -> None:
        self._mark(snapshot.host_volumes.newest_of_nodes())

    def take(self, batch: AppliedBatch) -> None:
        self._mark(batch.changed.get("nodes", ()))

    async def run(self) -> None:
        while True:
            await self._changed.wait(_RETRY_S if self._marked else None)
            marked, self._marked = self._marked, set()
            states = await self._outdated(sorted(marked))
            if not states:
                continue
            try:
                await self._state.propose(
                    SetHostVolumeStates(now_ns=self._clock.now_ns(), states=states)
                )
            except OrchgitError as error:
                _log.warning("cannot record volumes", volumes=list(states), error=str(error))
                self._marked |= marked

    async def _outdated(self, node_ids: list[str]) -> dict[str, str]:
        return await read_state(
            self._state.store,
            lambda snapshot: outdated_states(snapshot, node_ids),
            lambda _: len(node_ids),
        )

    def _mark(self, node_ids: Iterable[str]) -> None:
        self._marked.update(node_ids)
        if self._marked:
            self._changed.set()


def outdated_states(snapshot: Snapshot, node_ids: Iterable[str]) -> dict[str, str]:
    """Returns the new states, by volume id, of the volumes of these nodes whose state is
    outdated."""
    return {
        volume.id: state
        for node_id in node_ids
        for volume in snapshot.host_volumes.all(node_id=node_id)
        if (state := state_of(volume, snapshot.nodes.get(node_id))) != volume.state
    }
