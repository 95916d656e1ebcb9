"""Quotas of namespaces: what is committed never exceeds them, and who waited goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from orchgit.model.allocation import ClientStatus
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.node import Namespace, NodeStatus
from orchgit.model.plan import Plan
from orchgit.model.quota import QuotaAmounts, QuotaLimit, QuotaSpec
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocsFromClient
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.settings import DeleteQuotas, PutQuotas, UpsertNamespaces
from orchgit.state.quota_usage import namespaces_of_quota, quota_usage
from orchgit.state.snapshot import Snapshot
from tests.integration.control_rig import Rig, agent_node, leader
from tests.support.factories import make_evaluation, make_job, make_placements
from tests.support.polling import until

TEAM = "team"


async def ready_node(rig: Rig) -> str:
    node = agent_node(status=NodeStatus.READY, cpu_shares=10_000)
    await rig.state.propose(RegisterNode(node=node))
    return node.id


async def limit(rig: Rig, name: str = TEAM, **amounts: int) -> None:
    spec = QuotaSpec(name, limits=[QuotaLimit("global", QuotaAmounts(**amounts))])
    await rig.state.propose(PutQuotas(quotas=[spec]))


async def give(rig: Rig, quota: str, *namespaces: str) -> None:
    found = [Namespace(name=name, quota=quota) for name in namespaces]
    await rig.state.propose(UpsertNamespaces(namespaces=found))


def used(snapshot: Snapshot, quota: str = TEAM) -> QuotaAmounts:
    return quota_usage(snapshot, namespaces_of_quota(snapshot, quota))


async def until_placed(rig: Rig, job_id: str, count: int) -> None:
    def placed(snapshot: Snapshot) -> bool:
        found = snapshot.allocations.of_job("default", job_id)
        return sum(not each.is_terminal for each in found) == count

    await rig.until("allocations", read=placed)


async def until_blocked(rig: Rig, job_id: str) -> Evaluation:
    def blocked(snapshot: Snapshot) -> Evaluation | None:
        found = snapshot.evaluations.of_job("default", job_id)
        return next((each for each in found if each.status == EvalStatus.BLOCKED), None)

    found = await rig.until("evaluations", read=blocked)
    assert isinstance(found, Evaluation)
    return found


async def raise_limit(rig: Rig) -> None:
    await limit(rig, cpu=400)


async def lift_limit(rig: Rig) -> None:
    await limit(rig, memory_mb=10_000)


async def take_quota_away(rig: Rig) -> None:
    await give(rig, "", "default")


async def give_another(rig: Rig) -> None:
    await limit(rig, "large", cpu=1000)
    await give(rig, "large", "default")


async def delete_quota(rig: Rig) -> None:
    await give(rig, "", "default")
    await rig.state.propose(DeleteQuotas(names=[TEAM]))


async def end_allocations(rig: Rig) -> None:
    with rig.store.snapshot() as snapshot:
        (other,) = snapshot.allocations.of_job("default", "other")
    await rig.state.propose(
        UpdateAllocsFromClient(
            node_id=other.node_id, updates=[AllocClientUpdate(other.id, ClientStatus.COMPLETE)]
        )
    )


async def stop_job(rig: Rig) -> None:
    job = make_job(id="other")
    await rig.state.propose(
        DeregisterJob(deletion=JobDeletion("default", "other"), evaluation=make_evaluation(job))
    )


@pytest.mark.parametrize(
    "change",
    [
        raise_limit,
        lift_limit,
        take_quota_away,
        give_another,
        delete_quota,
        stop_job,
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_blocked_evaluation_goes_on_when_its_quota_has_room(
    tmp_path: Path, change: Callable[[Rig], Awaitable[None]], restarted: bool
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            await ready_node(rig)
            await limit(rig, cpu=300)
            await give(rig, TEAM, "default")
            async with rig.worker():
                await rig.register(make_job(id="other"))
                await until_placed(rig, "other", 1)
                await rig.register(make_job(id="wide", count=3))
                evaluation = await until_blocked(rig, "wide")
                assert evaluation.quota_limit_reached == TEAM
                await until_placed(rig, "wide", 2)
                if restarted:
                    await rig.control.stop()
                    await change(rig)
                    await rig.control.start()
                    await rig.control.ready()
                else:
                    await change(rig)
                await until_placed(rig, "wide", 3)

    asyncio.run(run())


def test_ended_allocation_makes_room_for_who_waits(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            await ready_node(rig)
            await limit(rig, memory_mb=128)
            await give(rig, TEAM, "default")
            async with rig.worker():
                await rig.register(make_job(id="other", type="batch"))
                await until_placed(rig, "other", 1)
                await rig.register(make_job(id="wide", count=2))
                await until_blocked(rig, "wide")
                await end_allocations(rig)
                await until_placed(rig, "wide", 2)

    asyncio.run(run())


def test_plan_on_an_old_snapshot_is_refused_whole_where_it_exceeds_the_quota(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            node_id = await ready_node(rig)
            await limit(rig, cpu=300)
            await give(rig, TEAM, "default")
            results = []
            for _ in range(2):
                job = make_job()
                await rig.register(job)
                delivery = await rig.dequeue()
                with rig.store.snapshot() as snapshot:
                    node = snapshot.nodes.get(node_id)
                assert node is not None
                plan = Plan(
                    eval_id=delivery.evaluation.id,
                    eval_token=delivery.token,
                    job_id=job.id,
                    placements=[make_placements(job, [node], 2)],
                )
                results.append(rig.submit_plan(plan))
            first, second = await asyncio.gather(*results)
            assert len(first.placements) == 1
            assert not second.placements
            assert second.refresh_index >= first.alloc_index
            with rig.store.snapshot() as snapshot:
                assert used(snapshot).cpu == 200

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(3))
def test_committed_usage_of_a_quotas_namespaces_never_exceeds_it(tmp_path: Path, seed: int) -> None:
    """Usage grows only up to the limit of the moment, whatever people and workers do."""
    random = Random(seed)

    async def check(rig: Rig, seen: list[tuple[int, int]]) -> None:
        """Looks at the state after each change."""
        before, index = QuotaAmounts(), 0
        while True:
            with rig.store.snapshot() as snapshot:
                index, now = snapshot.index, used(snapshot)
                quota = snapshot.quotas.get(TEAM)
            allowed = quota.allowed() if quota is not None else {}
            for name, amount in now.by_name().items():
                is_more = amount > before.by_name()[name]
                assert not is_more or name not in allowed or amount <= allowed[name], (now, allowed)
            before = now
            seen.append((now.cpu, now.memory_mb))
            await rig.store.watch.wait_applied(index + 1, 30.0)

    async def do_something(rig: Rig, names: list[str]) -> None:
        match random.choice(["register", "register", "register", "limit", "stop", "end"]):
            case "register":
                job = make_job(
                    count=random.randint(1, 6), namespace=random.choice(["default", "shared"])
                )
                names.append(f"{job.namespace}/{job.id}")
                await rig.register(job)
            case "limit":
                await until(lambda: _is_idle(rig))  # no plan is checked against another limit
                await limit(
                    rig, cpu=random.randint(1, 20) * 100, memory_mb=random.randint(1, 20) * 64
                )
            case "stop" if names:
                namespace, _, job_id = names.pop().partition("/")
                job = make_job(id=job_id, namespace=namespace)
                deletion = JobDeletion(namespace, job_id)
                await rig.state.propose(
                    DeregisterJob(deletion=deletion, evaluation=make_evaluation(job))
                )
            case "end":
                with rig.store.snapshot() as snapshot:
                    live = [each for each in snapshot.allocations.all() if not each.is_terminal]
                for each in live[:3]:
                    ended = [AllocClientUpdate(each.id, ClientStatus.FAILED)]
                    await rig.state.propose(
                        UpdateAllocsFromClient(node_id=each.node_id, updates=ended)
                    )

    async def run() -> None:
        async with leader(tmp_path) as rig, contextlib.AsyncExitStack() as workers:
            for _ in range(2):
                await ready_node(rig)
            await limit(rig, cpu=1000)
            await give(rig, TEAM, "default", "shared")
            for _ in range(3):
                await workers.enter_async_context(rig.worker())
            seen: list[tuple[int, int]] = []
            checking = asyncio.create_task(check(rig, seen))
            names: list[str] = []
            for _ in range(40):
                await do_something(rig, names)
                if random.random() < 0.3:
                    await rig.until("evaluations", read=_is_quiet)
            await rig.until("evaluations", read=_is_quiet)
            if checking.done():
                checking.result()
            checking.cancel()
            assert max(cpu for cpu, _ in seen) >= 300

    asyncio.run(run())


def _is_idle(rig: Rig) -> bool:
    stats = rig.control.broker_stats()
    return not any(stats[name] for name in ("ready", "unacked", "pending", "plans_waiting"))


def _is_quiet(snapshot: Snapshot) -> bool:
    """Whether no evaluation waits for a worker; those with a delay wait for their time."""
    pending = snapshot.evaluations.of_status(EvalStatus.PENDING)
    return all(each.wait_until for each in pending)
