"""What every use case needs: the replicated state, the clock and a source of ids."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchgit.clock import Clock
from orchgit.errors import ConflictError, RefusedError
from orchgit.ids import IdSource
from orchgit.replication.commands import Command
from orchgit.replication.replicated import Applied, ReplicatedState
from orchgit.services.admission import RULE_TABLES, ClusterRules, cluster_rules
from orchgit.state.kept import Kept
from orchgit.state.snapshot import Snapshot, StateReads


@dataclass(frozen=True, slots=True)
class World:
    state: ReplicatedState
    clock: Clock
    ids: IdSource
    _rules: Kept[ClusterRules] = field(
        default_factory=lambda: Kept(RULE_TABLES, cluster_rules), repr=False
    )

    def snapshot(self) -> Snapshot:
        return self.state.store.snapshot()

    def glance(self) -> StateReads:
        """The newest state, to be read before the next `await`; cheaper than a snapshot."""
        return self.state.store.glance()

    def cluster_rules(self) -> ClusterRules:
        """What every job has to meet, as of now."""
        return self._rules.of(self.state.store)

    def now_ns(self) -> int:
        return self.clock.now_ns()

    async def propose(self, command: Command) -> Applied:
        """Commit one entry; returns when its effects can be read."""
        return await self.state.propose(command)

    async def propose_or_refuse(self, command: Command, refusal: str) -> Applied:
        """Like `propose`; a lost race (ConflictError) becomes the refusal Nomad's clients know."""
        try:
            return await self.state.propose(command)
        except ConflictError as error:
            raise RefusedError(refusal) from error
