"""Jobs that wait for volumes, and what lets them go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from orchgit.ids import RandomIds
from orchgit.model.job import Job
from orchgit.model.node import ClientHostVolume, Node, NodeStatus
from orchgit.model.volume import HostVolume, VolumeCapability, VolumeRequest
from orchgit.replication.commands import (
    RegisterNode,
    UpdateNodeStatus,
    UpsertHostVolume,
)
from orchgit.services.host_volumes import delete_volume_claim
from orchgit.services.world import World
from tests.integration.control_rig import Rig, agent_node, leader
from tests.integration.test_control_blocked import blocked, report_ended, stop
from tests.integration.test_control_loops import placed
from tests.support.factories import make_group, make_id, make_job

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


def test_a_volume_for_one_writer_is_free_when_its_writer_has_ended(tmp_path: Path) -> None:
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


def test_a_job_waits_until_its_volume_is_ready(tmp_path: Path) -> None:
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


def test_a_group_that_is_bound_to_a_lost_volume_goes_on_when_its_claim_is_deleted(
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
                        snapshot.evaluation(held.eval_id), id=make_id("000000e1"), status="pending"
                    )
                ]
            await rig.state.propose(
                UpdateNodeStatus(node_id=lost.id, status="down", evaluations=evaluations)
            )
            await blocked(rig, job)
            with rig.store.snapshot() as snapshot:
                (claim,) = snapshot.volume_claims(job.namespace)
            await delete_volume_claim(World(rig.state, rig.clock, RandomIds()), claim.id)
            await placed(rig, job, 1)
            with rig.store.snapshot() as snapshot:
                (new,) = snapshot.volume_claims(job.namespace)
            assert new.volume_id != claim.volume_id

    asyncio.run(run())
