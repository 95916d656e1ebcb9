"""Jobs that wait for volumes, and what lets them go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from orchgit.control.watchers.volume_availability import state_of
from orchgit.errors import RefusedError
from orchgit.ids import RandomIds
from orchgit.model.job import Job
from orchgit.model.node import ClientHostVolume, Node, NodeStatus
from orchgit.model.volume import HostVolume, VolumeCapability, VolumeRequest
from orchgit.replication.commands.nodes import DeleteNodes, RegisterNode, UpdateNodeStatus
from orchgit.replication.commands.volumes import UpsertHostVolume
from orchgit.services.context import UseCaseContext
from orchgit.services.host_volumes import delete_host_volume, delete_volume_claim
from tests.integration.control_rig import Rig, agent_node, leader
from tests.integration.test_control_blocked import blocked, report_ended, stop
from tests.integration.test_control_loops import placed
from tests.support.factories import make_group, make_id, make_job, make_node

ONE_WRITER = "single-node-single-writer"


async def node_with_volume(rig: Rig, state: str = "ready") -> tuple[Node, HostVolume]:
    node = agent_node(status=NodeStatus.READY)
    volume = HostVolume(
        id=make_id("000000f1"),
        name="data",
        node_id=node.id,
        state=state,
        requested_capabilities=[VolumeCapability(ONE_WRITER, "file-system")],
    )
    node.host_volumes = {"data": ClientHostVolume(name="data", path="/srv/data", id=volume.id)}
    await rig.state.propose(UpsertHostVolume(volume=volume))
    await rig.state.propose(RegisterNode(node=node))
    return node, volume


def writing_job(sticky: bool = False) -> Job:
    request = VolumeRequest(
        name="data", type="host", source="data", sticky=sticky, access_mode=ONE_WRITER
    )
    return make_job(task_groups=[make_group(volumes={"data": request})])


def test_single_writer_volume_is_free_when_its_writer_ended(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker():
            await node_with_volume(rig)
            first, second = writing_job(), writing_job()
            await rig.register(first)
            await placed(rig, first, 1)
            await rig.register(second)
            await blocked(rig, second)
            await stop(rig, first)
            await report_ended(rig, first)
            await placed(rig, second, 1)

    asyncio.run(run())


def test_job_waits_until_its_volume_is_ready(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker():
            _, volume = await node_with_volume(rig, state="pending")
            job = writing_job()
            await rig.register(job)
            await blocked(rig, job)
            made = msgspec.structs.replace(volume, state="ready")
            await rig.state.propose(UpsertHostVolume(volume=made))
            await placed(rig, job, 1)

    asyncio.run(run())


def test_group_claiming_a_lost_volume_is_placed_when_the_claim_is_deleted(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker():
            lost, _ = await node_with_volume(rig)
            job = writing_job(sticky=True)
            await rig.register(job)
            (held,) = await placed(rig, job, 1)
            await node_with_volume(rig)
            with rig.store.snapshot() as snapshot:
                evaluations = [
                    msgspec.structs.replace(
                        snapshot.evaluations.get(held.eval_id),
                        id=make_id("000000e1"),
                        status="pending",
                    )
                ]
            await rig.state.propose(
                UpdateNodeStatus(node_id=lost.id, status="down", evaluations=evaluations)
            )
            await blocked(rig, job)
            with rig.store.snapshot() as snapshot:
                (claim,) = snapshot.volume_claims.all(job.namespace)
            await delete_volume_claim(UseCaseContext(rig.state, rig.clock, RandomIds()), claim.id)
            await placed(rig, job, 1)
            with rig.store.snapshot() as snapshot:
                (new,) = snapshot.volume_claims.all(job.namespace)
            assert new.volume_id != claim.volume_id

    asyncio.run(run())


async def volume_is(rig: Rig, volume: HostVolume, state: str) -> None:
    await rig.until("host_volumes", read=lambda s: s.host_volumes.get(volume.id).state == state)


def test_volume_of_a_down_node_is_unavailable_and_usable_when_it_returns(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker():
            node, volume = await node_with_volume(rig)
            await rig.state.propose(UpdateNodeStatus(node_id=node.id, status="down"))
            await volume_is(rig, volume, "unavailable")
            job = writing_job()
            await rig.register(job)
            await blocked(rig, job)
            await rig.state.propose(UpdateNodeStatus(node_id=node.id, status="ready"))
            await volume_is(rig, volume, "ready")
            await placed(rig, job, 1)

    asyncio.run(run())


def test_new_leader_updates_volumes_that_changed_without_a_leader(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            node, volume = await node_with_volume(rig)
            await rig.control.stop()
            await rig.state.propose(DeleteNodes(node_ids=[node.id]))
            await rig.control.start()
            await volume_is(rig, volume, "unavailable")

    asyncio.run(run())


def test_deletion_of_a_mounted_volume_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker():
            context = UseCaseContext(rig.state, rig.clock, RandomIds())
            _, volume = await node_with_volume(rig)
            job = writing_job()
            await rig.register(job)
            await placed(rig, job, 1)
            with pytest.raises(RefusedError, match="in use by alloc"):
                await delete_host_volume(context, "default", volume.id)
            await stop(rig, job)
            await report_ended(rig, job)
            await delete_host_volume(context, "default", volume.id)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("known", "status", "reported", "expected"),
    [
        ("ready", NodeStatus.READY, True, "ready"),
        ("ready", NodeStatus.DISCONNECTED, True, "ready"),
        ("ready", NodeStatus.DOWN, True, "unavailable"),
        ("ready", NodeStatus.READY, False, "unavailable"),
        ("ready", None, False, "unavailable"),
        ("unavailable", NodeStatus.INITIALIZING, True, "ready"),
        ("pending", NodeStatus.DOWN, False, "pending"),
    ],
)
def test_volume_has_the_state_that_its_node_reports(
    known: str, status: str | None, reported: bool, expected: str
) -> None:
    volume = HostVolume(id="v", name="data", state=known)
    node = make_node(status=status) if status is not None else None
    if node is not None and reported:
        node.host_volumes = {"data": ClientHostVolume(name="data", id="v")}
    assert state_of(volume, node) == expected
