"""How long the leader's own work holds its event loop: `python -m tests.benchmarks.leader_holds`.

One server with `--nodes` nodes, `--jobs` jobs that share `--allocations` allocations, and a job of
`--jobs` allocations; each node has a host volume, a tenth of the allocations claim a CSI volume,
and each job has a pending and a blocked evaluation. A line of JSON for each event that the leader's
loops answer (a new term, reports, a drain, silent nodes, ...) says the most processor time that one
step of the event loop took until all was quiet, in milliseconds; the least of three tries. Ends
with status 1 if a step took more than `--most-ms`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from orchgit.collector import settle_collector
from orchgit.model.base import NS_PER_S
from orchgit.model.csi import CsiClaim, CsiVolume
from orchgit.model.evaluation import EvalStatus
from orchgit.model.node import DrainStrategy, NodeStatus
from orchgit.model.volume import HostVolume
from orchgit.replication.commands.allocations import AllocClientUpdate
from orchgit.replication.commands.csi_volumes import ClaimCsiVolume, PutCsiVolume
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.nodes import SetNodeDrain, UpdateNodeStatus
from orchgit.replication.commands.volumes import UpsertHostVolume
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.register import register_job
from orchgit.state.chunks import chunks
from tests.benchmarks.loop_holds import TimedLoop
from tests.benchmarks.report import print_figure
from tests.support.factories import make_evaluation, make_job
from tests.support.many_objects import commit, fill
from tests.support.pacing import pause
from tests.support.server_rig import ServerRig

_TRIES = 3
_QUIET_S = 3.0
_BIG = "big"

Event = Callable[[UseCaseContext, int], Awaitable[object]]
"""What happens, given the number of the try."""


async def _add_volumes(context: UseCaseContext) -> None:
    with context.snapshot() as snapshot:
        nodes = [node.id for node in snapshot.nodes.all()]
        claimed = [one.id for one in snapshot.allocations.all("default")][::10]
    volumes = (
        HostVolume(id=f"volume-{node}", name="data", node_id=node, state="ready") for node in nodes
    )
    await commit(context, (UpsertHostVolume(volume=volume) for volume in volumes))
    await commit(
        context, (PutCsiVolume(volume=CsiVolume(id=one, plugin_id="p")) for one in claimed)
    )
    claims = (
        ClaimCsiVolume(
            volume_id=one, claim=CsiClaim(alloc_id=one, access_mode="single-node-writer")
        )
        for one in claimed
    )
    await commit(context, claims)


async def _add_evaluations(context: UseCaseContext) -> None:
    with context.snapshot() as snapshot:
        jobs = snapshot.jobs.all()
    made = (
        make_evaluation(job, id=context.ids.new(), status=status)
        for job in jobs
        for status in (EvalStatus.PENDING, EvalStatus.BLOCKED)
    )
    await commit(context, (UpsertEvaluations(evaluations=some) for some in chunks(made, 100)))


class Events:
    def __init__(self, rig: ServerRig) -> None:
        self._rig = rig
        with rig.server.services.context.snapshot() as snapshot:
            found = snapshot.allocations.of_job("default", _BIG)
            self._big = [(one.id, one.node_id) for one in found]
            self._nodes = [node.id for node in snapshot.nodes.all()]
            volumes = snapshot.csi_volumes.all()[:_TRIES]
            claimed = [volume.claims[0].alloc_id for volume in volumes]
            self._claimed = [
                (one.id, one.node_id) for one in snapshot.allocations.get_many(claimed)
            ]

    async def new_term(self, context: UseCaseContext, number: int) -> None:
        context.state.leadership.renew()

    async def report_of_a_large_deployment(self, context: UseCaseContext, number: int) -> None:
        alloc_id, node_id = self._big[number]
        healthy = AllocClientUpdate(alloc_id, "running", deployment_healthy=True)
        await self._rig.server.services.nodes.reports(node_id).take([healthy])

    async def drain_of_a_node_of_a_large_job(self, context: UseCaseContext, number: int) -> None:
        strategy = DrainStrategy(deadline_ns=3600 * NS_PER_S)
        node_id = self._big[number][1]
        await context.propose(SetNodeDrain(node_id=node_id, drain=strategy))

    async def end_of_an_allocation_with_a_claim(self, context: UseCaseContext, number: int) -> None:
        alloc_id, node_id = self._claimed[number]
        ended = AllocClientUpdate(alloc_id, "complete")
        await self._rig.server.services.nodes.reports(node_id).take([ended])

    async def hundred_nodes_down(self, context: UseCaseContext, number: int) -> None:
        down = self._nodes[-100 * (number + 1) :][:100]
        await commit(
            context, (UpdateNodeStatus(node_id=one, status=NodeStatus.DOWN) for one in down)
        )

    async def registration(self, context: UseCaseContext, number: int) -> None:
        await register_job(context, make_job(id=f"new-{number}"))


async def _hold_s(loop: TimedLoop, context: UseCaseContext, event: Event, number: int) -> float:
    await pause(_QUIET_S, "what came before has its effects")
    loop.most_s = 0.0
    await event(context, number)
    await pause(_QUIET_S, "the event has its effects")
    return loop.most_s


def _measure(rig: ServerRig, loop: TimedLoop, most_ms: float) -> bool:
    is_within, events, context = True, Events(rig), rig.server.services.context
    named: list[tuple[str, Event]] = [
        (name, getattr(events, name)) for name in vars(Events) if not name.startswith("_")
    ]
    for name, event in named:
        holds_s = [rig.run(_hold_s(loop, context, event, number)) for number in range(_TRIES)]
        hold_ms = min(holds_s) * 1000
        is_within &= print_figure(
            f"leader_holds {name}",
            hold_ms <= most_ms,
            hold_ms=round(hold_ms, 1),
            most_hold_ms=round(max(holds_s) * 1000, 1),
        )
    return is_within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--allocations", type=int, default=100_000)
    parser.add_argument("--most-ms", type=float, default=50.0)
    options = parser.parse_args()
    loop = TimedLoop()
    with tempfile.TemporaryDirectory() as directory:
        rig = ServerRig(Path(directory), with_agent=False, loop=loop, num_schedulers=0)
        rig.start()
        settle_collector()  # as the process of a server does
        context = rig.server.services.context

        async def fill_all() -> None:
            await fill(context, options.jobs, options.allocations, options.nodes)
            await _add_volumes(context)
            await _add_evaluations(context)

        filling: Any = asyncio.run_coroutine_threadsafe(fill_all(), loop)
        filling.result()
        is_within = _measure(rig, loop, options.most_ms)
        rig.stop()
    sys.exit(0 if is_within else 1)


if __name__ == "__main__":
    main()
