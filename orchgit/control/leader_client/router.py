"""The leader for this server's workers: in this process while this server leads, else over RPC."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from orchgit.control.evaluations.broker import Holder
from orchgit.control.leader import Control
from orchgit.control.leader_client.port import NearLeaderPort
from orchgit.control.leader_client.rpc import RpcLeader
from orchgit.errors import OrchgitError
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.wire.channel import LeaderChannel
from orchgit.wire.messages import DequeuedEvaluation
from orchgit.wire.worker_messages import CloseEvaluation


class NearestLeader:
    """One for all workers of a server; `channel` finds the leader where it is another one."""

    def __init__(self, control: Control, channel: LeaderChannel) -> None:
        self._control = control
        self._channel = channel

    def port(self, holder: Holder) -> NearLeaderPort:
        """What one worker's process asks."""
        far = RpcLeader(self._channel, holder.worker_id, holder.session)
        return _Nearest(self._control, replace(holder, near=True), far)

    def gone(self, holder: Holder) -> None:
        """That process has ended: what it held is delivered again. Where another server leads, it
        hears of it from the worker's next process, or the hold runs out."""
        self._control.worker_gone(holder)

    def follow(self, leader: str) -> None:
        """That server leads now (RPC address): what was asked of another one is asked anew."""
        self._channel.follow(leader)

    async def close(self) -> None:
        await self._channel.close()


class _Nearest:
    """A NearLeaderPort."""

    def __init__(self, control: Control, holder: Holder, far: RpcLeader) -> None:
        self._control = control
        self._holder = holder
        self._far = far

    async def dequeue(
        self, types: Sequence[str], timeout_s: float, limit: int
    ) -> list[DequeuedEvaluation]:
        if not self._control.leads:
            return await self._far.dequeue(types, timeout_s, limit)
        deliveries = await self._control.dequeue(types, timeout_s, limit, self._holder)
        return [
            DequeuedEvaluation(
                evaluation=each.evaluation, token=each.token, wait_index=each.wait_index
            )
            for each in deliveries
        ]

    async def nack(self, eval_id: str, token: str, *, untouched: bool = False) -> None:
        if self._control.leads:
            self._control.nack(eval_id, token, untouched=untouched)
        else:
            await self._far.nack(eval_id, token, untouched=untouched)

    async def close(self, eval_id: str, token: str, evaluations: list[Evaluation]) -> None:
        if self._control.leads:
            await self._control.store_evaluations(eval_id, token, evaluations, ack=True)
        else:
            await self._far.close(eval_id, token, evaluations)

    async def close_all(self, outcomes: Sequence[CloseEvaluation]) -> Sequence[OrchgitError | None]:
        if self._control.leads:
            return await self._control.close_all(outcomes)
        return await asyncio.gather(*map(self._close_far, outcomes))

    async def _close_far(self, outcome: CloseEvaluation) -> OrchgitError | None:
        try:
            await self._far.close(outcome.eval_id, outcome.token, outcome.evaluations)
        except OrchgitError as exc:
            return exc
        return None

    async def submit(
        self, plan: Plan, followups: list[Evaluation], closing: list[Evaluation]
    ) -> PlanResult:
        if self._control.leads:
            return await self._control.submit_plan(plan, followups, closing)
        return await self._far.submit(plan, followups, closing)
