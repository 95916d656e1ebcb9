"""Claims on CSI volumes: taken before the provider attaches, released with or without the node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from orchgit.clock import FakeClock
from orchgit.control.watchers.csi_claims import CsiClaimWatcher, all_claims, ended_claims
from orchgit.errors import (
    ConflictError,
    NotAllowedError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from orchgit.model.csi import CsiClaim, CsiVolume
from orchgit.model.node import Node
from orchgit.model.volume import MountOptions, VolumeCapability, VolumeRequest
from orchgit.replication.commands.allocations import AllocClientUpdate
from orchgit.replication.commands.csi_volumes import (
    ClaimCsiVolume,
    DeleteCsiVolume,
    PutCsiVolume,
)
from orchgit.replication.commands.nodes import RegisterNode, UpdateNodeStatus
from orchgit.services.allocations.reports import NodeReports
from orchgit.services.context import UseCaseContext
from orchgit.services.csi.claims import CsiUseCases
from orchgit.services.csi.node_calls import NodeCalls, PluginRefusedError
from orchgit.services.csi.volumes import CsiVolumeUseCases
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
from orchgit.wire.messages import ClaimVolumeRequest
from tests.support.factories import make_group, make_job
from tests.support.polling import until
from tests.support.use_cases import placed_job, ready_node, with_context

WRITER = VolumeCapability("single-node-writer", "file-system")


class SaidCalls(NodeCalls):
    """Notes calls; a method in `fails` fails so, a node in `away` cannot be reached."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.fails: dict[str, Exception] = {}
        self.away: set[str] = set()

    async def call(
        self, node_id: str, plugin_id: str, method: str, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        if node_id in self.away:
            raise UnavailableError(f"node {node_id} is away")
        self.calls.append((node_id, method))
        if method in self.fails:
            raise self.fails[method]
        return {"publish_context": {"device": "d"}}

    def take(self) -> list[str]:
        methods = [method for _, method in self.calls]
        self.calls.clear()
        return methods


class World:
    def __init__(self, context: UseCaseContext, nodes: list[Node], allocs: list[str]) -> None:
        self.context, self.nodes, self.allocs = context, nodes, allocs
        self.calls = SaidCalls()
        self.csi = CsiUseCases(context, self.calls)

    async def claim(self, at: int = 0, release: bool = False, **changes: Any) -> Any:
        node = self.nodes[at]
        asked = ClaimVolumeRequest(node.id, node.secret_id, self.allocs[at], "v", release)
        return await self.csi.claim_for_node(replace(asked, **changes))

    def volume(self) -> CsiVolume:
        with self.context.snapshot() as snapshot:
            found = snapshot.csi_volumes.get("default", "vol")
        assert found is not None
        return found

    async def release(self, at: int = 0) -> None:
        await self.csi.release("default", "vol", self.allocs[at])

    async def down(self, at: int = 0) -> None:
        await self.context.propose(UpdateNodeStatus(node_id=self.nodes[at].id, status="down"))


async def plugin_node(context: UseCaseContext, name: str) -> Node:
    node = await ready_node(context, name=name)
    healthy = {"Healthy": True}
    info = {"SupportsAttachDetach": True}
    plugin = {**healthy, "NodeInfo": {"ID": f"ext-{name}"}}
    node.csi_node_plugins = {"p": plugin, "q": plugin}
    node.csi_controller_plugins = {"p": {**healthy, "ControllerInfo": info}}
    await context.propose(RegisterNode(node=node))
    return node


def run(
    work: Callable[[World], Awaitable[None]],
    mode: str = "single-node-writer",
    same_node: bool = False,
) -> None:
    """Two allocations that want the volume `vol`, on two nodes or on one."""

    async def inside(context: UseCaseContext) -> None:
        nodes = [await plugin_node(context, name) for name in ("a", "b")]
        volume = CsiVolume(
            id="vol",
            external_id="ext",
            plugin_id="p",
            requested_capabilities=[WRITER, VolumeCapability(mode, "file-system")],
            mount_options=MountOptions("ext4", ["ro"]),
        )
        await context.propose(PutCsiVolume(volume=volume))
        request = VolumeRequest(
            name="v",
            type="csi",
            source="vol",
            access_mode=mode,
            attachment_mode="file-system",
            mount_options=MountOptions("xfs"),
        )
        if same_node:
            nodes[1] = nodes[0]
        job = make_job(task_groups=[make_group(volumes={"v": request}, count=1)])
        await work(World(context, nodes, await placed_job(context, job, nodes)))

    with_context(inside)


def test_claim_is_stored_with_what_the_provider_said_and_joined_options() -> None:
    async def work(world: World) -> None:
        reply = await world.claim()
        assert world.calls.take() == ["ControllerPublishVolume"]
        assert reply.volume.mount_options == MountOptions("xfs", ["ro"])
        [claim] = world.volume().claims
        assert (claim.publish_context, claim.external_node_id) == ({"device": "d"}, "ext-a")
        assert world.volume().mount_options == MountOptions("ext4", ["ro"])
        with pytest.raises(ConflictError, match="max claims reached: vol is written by"):
            await world.claim(1)
        await world.claim(release=True)
        assert world.calls.take() == ["ControllerUnpublishVolume"]
        assert (world.volume().claims, world.volume().access_mode) == ([], "")

    run(work)


def test_claim_that_the_provider_refuses_is_not_kept() -> None:
    async def work(world: World) -> None:
        world.calls.fails["ControllerPublishVolume"] = PluginRefusedError("no", "INTERNAL")
        with pytest.raises(RefusedError):
            await world.claim()
        assert world.volume().claims == []

    run(work)


def test_claim_that_may_be_attached_or_mounted_already_is_kept() -> None:
    async def work(world: World) -> None:
        for error in (
            UnavailableError("no answer"),
            PluginRefusedError("no", "INTERNAL"),
            PluginRefusedError("it hangs", "DEADLINE_EXCEEDED"),
        ):
            world.calls.fails["ControllerPublishVolume"] = error
            with pytest.raises(type(error)):
                await world.claim()
            assert [each.alloc_id for each in world.volume().claims] == [world.allocs[0]]
        with pytest.raises(ConflictError):
            await world.claim(1)
        world.calls.fails.clear()
        await world.claim(release=True)
        assert world.calls.take()[-1] == "ControllerUnpublishVolume"
        assert world.volume().claims == []
        world.calls.fails["ControllerPublishVolume"] = PluginRefusedError("hangs", "ABORTED")
        with pytest.raises(PluginRefusedError):
            await world.claim()
        assert len(world.volume().claims) == 1

    run(work)


def test_only_the_node_of_the_allocation_claims() -> None:
    async def work(world: World) -> None:
        with pytest.raises(NotAllowedError, match="the secret is not"):
            await world.claim(secret_id="guessed")
        with pytest.raises(NotFoundError, match="cannot find allocation"):
            await world.claim(alloc_id=world.allocs[1])
        with pytest.raises(NotFoundError, match="cannot find CSI volume w of the job"):
            await world.claim(volume_name="w")
        assert world.calls.calls == []

    run(work)


def test_provider_detaches_after_the_nodes_last_claim() -> None:
    async def work(world: World) -> None:
        await world.claim(0)
        await world.claim(1)
        world.calls.take()
        await world.release(0)
        assert world.calls.take() == ["Release"]
        await world.release(1)
        assert world.calls.take() == ["Release", "ControllerUnpublishVolume"]
        await world.release(1)
        assert world.calls.take() == []

    run(work, "multi-node-multi-writer", same_node=True)


def test_claim_of_a_node_that_is_down_is_released_without_the_node() -> None:
    async def work(world: World) -> None:
        await world.claim()
        world.calls.take()
        world.calls.away = {world.nodes[0].id}
        with pytest.raises(UnavailableError):
            await world.release()
        assert len(world.volume().claims) == 1
        await world.down()
        await world.release()
        assert world.calls.take() == ["ControllerUnpublishVolume"]
        assert world.volume().claims == []

    run(work)


def test_claim_stays_while_the_provider_cannot_detach() -> None:
    async def work(world: World) -> None:
        await world.claim()
        world.calls.fails["ControllerUnpublishVolume"] = PluginRefusedError("busy", "ABORTED")
        with pytest.raises(PluginRefusedError):
            await world.release()
        assert len(world.volume().claims) == 1
        world.calls.fails["ControllerUnpublishVolume"] = PluginRefusedError("?", "NOT_FOUND")
        await world.release()
        assert world.volume().claims == []

    run(work)


def test_claim_stays_while_no_node_runs_the_plugin() -> None:
    async def work(world: World) -> None:
        await world.claim()
        for node in world.nodes:
            node.csi_node_plugins = node.csi_controller_plugins = None
            await world.context.propose(RegisterNode(node=node))
        with pytest.raises(UnavailableError, match="its plugin is away"):
            await world.release()
        await world.down()
        await world.release()
        assert world.volume().claims == []

    run(work)


def test_next_controller_is_asked_when_the_first_is_away() -> None:
    async def work(world: World) -> None:
        first, second = sorted(node.id for node in world.nodes)
        world.calls.away = {first}
        await world.claim()
        assert world.calls.calls == [(second, "ControllerPublishVolume")]

    run(work)


def test_claims_of_ended_allocations_are_to_be_released() -> None:
    async def work(world: World) -> None:
        await world.claim(0)
        with world.context.snapshot() as snapshot:
            claims = all_claims(snapshot)
            assert ended_claims(snapshot, claims) == {}
        update = AllocClientUpdate(world.allocs[0], "complete")
        await NodeReports(world.context, world.nodes[0].id).take([update])
        with world.context.snapshot() as snapshot:
            assert ended_claims(snapshot, claims) == {("default", "vol"): ("p", [world.allocs[0]])}

    run(work)


def test_volume_with_claims_keeps_them_and_is_neither_moved_nor_forgotten() -> None:
    async def work(world: World) -> None:
        await world.claim()
        use_cases = CsiVolumeUseCases(world.csi)
        for refused in (
            use_cases.delete("default", "vol", {}),
            use_cases.deregister("default", "vol", force=False),
        ):
            with pytest.raises(RefusedError, match="volume in use: vol"):
                await refused
        known = world.volume()
        with pytest.raises(RefusedError, match="of plugin p already"):
            await use_cases.create(replace(known, plugin_id="q"))
        await world.context.propose(PutCsiVolume(volume=replace(known, claims=[], access_mode="")))
        assert [claim.alloc_id for claim in world.volume().claims] == [world.allocs[0]]
        assert world.volume().access_mode == "single-node-writer"
        with pytest.raises(ConflictError, match="volume in use: vol"):
            await world.context.propose(DeleteCsiVolume(namespace="default", volume_id="vol"))
        await use_cases.deregister("default", "vol", force=True)

    run(work)


def test_new_leader_releases_ended_claims_and_tries_again_what_failed() -> None:
    async def work(world: World) -> None:
        await world.claim(0)
        update = AllocClientUpdate(world.allocs[0], "complete")
        await NodeReports(world.context, world.nodes[0].id).take([update])
        clock, tried = world.context.clock, list[str]()
        assert isinstance(clock, FakeClock)

        async def release(namespace: str, volume_id: str, alloc_id: str) -> None:
            tried.append(volume_id)
            raise UnavailableError("not yet")

        watcher = CsiClaimWatcher(world.context.state.store, clock, release)
        with world.context.snapshot() as snapshot:
            watcher.restore(snapshot)
        loop = asyncio.create_task(watcher.run())
        await until(lambda: tried == ["vol"])
        await clock.advance(4.9)
        assert tried == ["vol"]
        await clock.advance(0.1)
        await until(lambda: tried == ["vol", "vol"])
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    run(work)


def test_claim_whose_release_hangs_holds_up_no_other_volume() -> None:
    async def work(world: World) -> None:
        other = replace(world.volume(), id="other")
        await world.context.propose(PutCsiVolume(volume=other))
        gone = CsiClaim("gone", access_mode="single-node-writer", attachment_mode="file-system")
        claim = ClaimCsiVolume(namespace="default", volume_id="other", claim=gone)
        await world.claim(0)
        update = AllocClientUpdate(world.allocs[0], "complete")
        await NodeReports(world.context, world.nodes[0].id).take([update])
        hangs, released = asyncio.Event(), asyncio.Event()

        async def release(namespace: str, volume_id: str, alloc_id: str) -> None:
            if volume_id == "other":
                released.set()
            hangs.set()
            await asyncio.Event().wait()

        watcher = CsiClaimWatcher(world.context.state.store, world.context.clock, release)
        feed = world.context.state.subscribe()
        loop = asyncio.create_task(watcher.run())
        async with asyncio.timeout(60):
            await hangs.wait()
            await world.context.propose(claim)
            watcher.take(await anext(feed))
            await released.wait()
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    run(work)


class CountedReads:
    """A store that counts its snapshots."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.count = 0

    def snapshot(self) -> Snapshot:
        self.count += 1
        return self._store.snapshot()


class CountedRests(FakeClock):
    """A watcher rests when it knows the claims."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    async def sleep(self, seconds: float) -> None:
        self.count += 1
        await super().sleep(seconds)


def test_claims_are_looked_at_when_an_allocation_with_a_claim_changes_and_for_no_other() -> None:
    async def work(world: World) -> None:
        (other,) = await placed_job(world.context, make_job(id="other"), [world.nodes[0]])
        await world.claim(0)
        reads, clock, began = CountedReads(world.context.state.store), CountedRests(), list[str]()
        store: Any = reads

        async def release(namespace: str, volume_id: str, alloc_id: str) -> None:
            began.append(alloc_id)
            await asyncio.Event().wait()

        watcher = CsiClaimWatcher(store, clock, release)
        feed = world.context.state.subscribe()

        async def ends(alloc_id: str) -> None:
            update = AllocClientUpdate(alloc_id, "complete")
            await NodeReports(world.context, world.nodes[0].id).take([update])
            watcher.take(await anext(feed))

        loop = asyncio.create_task(watcher.run())
        await until(lambda: clock.count == 1)
        await ends(other)
        await ends(world.allocs[0])
        await until(lambda: began == [world.allocs[0]])
        assert reads.count == 2
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    run(work)


@pytest.mark.parametrize(
    ("held", "wanted", "problem"),
    [
        ("", ("write", "single-node-writer"), ""),
        ("", ("write", "multi-node-reader-only"), "was not registered with access mode"),
        ("", ("write", "single-node-reader-only"), "cannot be written with access mode"),
        ("", ("read", "single-node-reader-only"), ""),
        ("single-node-writer", ("write", "single-node-writer"), "max claims reached"),
        ("single-node-writer", ("read", "multi-node-multi-writer"), "is in use with access mode"),
        ("multi-node-multi-writer", ("write", "multi-node-multi-writer"), ""),
    ],
)
def test_claim_has_to_fit_the_volume_and_its_other_claims(
    held: str, wanted: tuple[str, str], problem: str
) -> None:
    modes = ("single-node-writer", "single-node-reader-only", "multi-node-multi-writer")
    capabilities = [VolumeCapability(mode, "file-system") for mode in modes]
    volume = CsiVolume(id="vol", requested_capabilities=capabilities, access_mode=held)
    if held:
        volume.claims = [CsiClaim(alloc_id="other", mode="write", access_mode=held)]
    mode, access_mode = wanted
    found = volume.claim_problem(CsiClaim(alloc_id="new", mode=mode, access_mode=access_mode))
    assert problem in found
    assert bool(found) == bool(problem)
