"""Mounting CSI volumes for allocations, and the plugins of a node: by a plugin that says what it is
told to say."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.csi.client import CsiError
from agent.csi.plugins import CONTROLLER, NODE, CsiPlugins, PluginTask
from agent.csi.volumes import CsiVolumes
from agent.hooks.base import SetupError
from agent.paths import csi_socket_directory
from orchgit.clock import FakeClock
from orchgit.errors import ConflictError, DriverError
from orchgit.model.allocation import Allocation
from orchgit.model.csi import CsiClaim, CsiVolume
from orchgit.model.group import TaskGroup
from orchgit.model.volume import VolumeRequest
from orchgit.wire.messages import ClaimVolumeReply, CsiCall
from tests.support.csi_plugin import Plugin, serve
from tests.support.factories import make_allocation, make_group, make_job, make_task
from tests.support.polling import until


class QuickClock(FakeClock):
    """Every sleep ends at once."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


class ClockOfOneLoop(FakeClock):
    """Moves only while the loop that it is for sleeps: answers that the loop waits for take no
    time."""

    is_asleep = False

    async def sleep(self, seconds: float) -> None:
        self.is_asleep = True
        try:
            await super().sleep(seconds)
        finally:
            self.is_asleep = False

    async def advance(self, seconds: float) -> None:
        await until(lambda: self.is_asleep, 60)
        await super().advance(seconds)


class SaidPlugin:
    """Notes calls; fails those in `fails` (method to gRPC code)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.fails: dict[str, str] = {}

    async def call(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append((name, request))
        if code := self.fails.get(name):
            raise CsiError(f"{name}: {code}: no", code)
        if name == "NodePublishVolume":
            Path(request["target_path"]).mkdir(parents=True)
        return {}

    def take(self) -> list[str]:
        names = [name for name, _ in self.calls]
        self.calls.clear()
        return names


class SaidPlugins:
    def __init__(self) -> None:
        self.one, self.two = SaidPlugin(), SaidPlugin()
        self.away: set[str] = set()

    def client(self, plugin_id: str, kind: str) -> SaidPlugin:
        if plugin_id in self.away:
            raise DriverError(f"{plugin_id} is away", recoverable=True)
        return self.one if plugin_id == "one" else self.two

    def node_info(self, plugin_id: str) -> dict[str, Any]:
        return {"RequiresNodeStageVolume": plugin_id == "one", "SupportsExpand": True}


class Servers:
    """Grants every claim, after `conflicts` refusals."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bool]] = []
        self.conflicts = 0
        self.mode = "write"

    async def claim(self, alloc_id: str, name: str, release: bool) -> ClaimVolumeReply:
        self.asked.append((alloc_id, name, release))
        if release:
            return ClaimVolumeReply()
        if self.conflicts:
            self.conflicts -= 1
            raise ConflictError("in use")
        volume = CsiVolume(id=f"vol-{name}", external_id=f"ext-{name}", plugin_id=name, capacity=9)
        return ClaimVolumeReply(volume, CsiClaim(alloc_id=alloc_id, mode=self.mode))


class Node:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.plugins, self.servers = SaidPlugins(), Servers()
        plugins: Any = self.plugins
        self.volumes = CsiVolumes(root, plugins, QuickClock(), self.servers.claim)

    def records(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "per-alloc").glob("*/*.json"))


def wanting(*names: str, read_only: bool = False) -> tuple[Allocation, TaskGroup]:
    volumes = {
        name: VolumeRequest(name=name, type="csi", source=f"vol-{name}", read_only=read_only)
        for name in names
    }
    task = make_task(csi_plugin_config={"ID": "x", "Type": "node"})
    group = make_group(volumes=volumes, tasks=[task])
    return make_allocation(make_job(task_groups=[group])), group


def on_node(tmp_path: Path, work: Callable[[Node], Awaitable[None]]) -> None:
    asyncio.run(work(Node(tmp_path / "csi")))


def test_reader_gets_a_volume_that_it_cannot_write_or_enlarge(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        node.servers.mode = "read"
        alloc, group = wanting("one", read_only=True)
        found = await node.volumes.publish(alloc, group, False)
        assert found["one"].read_only
        assert Path(found["one"].host_path).is_dir()
        [_, (name, request)] = node.plugins.one.calls
        assert (name, request["readonly"]) == ("NodePublishVolume", True)
        node.servers.mode = "write"
        writer, group = wanting("one")
        found = await node.volumes.publish(writer, group, False)
        assert not found["one"].read_only
        (name, request), (last, larger) = node.plugins.one.calls[-2:]
        assert (name, request["readonly"]) == ("NodePublishVolume", False)
        assert (last, larger["capacity_range"]) == ("NodeExpandVolume", {"required_bytes": 9})
        assert larger["volume_path"] == found["one"].host_path

    on_node(tmp_path, work)


def test_volume_stays_staged_until_its_last_allocation_has_gone(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        (first, group), (second, _) = wanting("one"), wanting("one")
        for alloc in (first, second):
            found = await node.volumes.publish(alloc, group, False)
            assert Path(found["one"].host_path).is_dir()
        node.plugins.one.take()
        await node.volumes.release(first, group)
        assert node.plugins.one.take() == ["NodeUnpublishVolume"]
        assert not (node.root / "per-alloc" / first.id).exists()
        await node.volumes.release(second, group)
        assert node.plugins.one.take() == ["NodeUnpublishVolume", "NodeUnstageVolume"]
        assert node.records() == []
        assert not list((node.root / "staging" / "default").iterdir())

    on_node(tmp_path, work)


@pytest.mark.parametrize("method", ["NodeUnpublishVolume", "NodeUnstageVolume"])
def test_volume_that_cannot_be_unmounted_is_tried_again_and_holds_up_no_other(
    tmp_path: Path, method: str
) -> None:
    async def work(node: Node) -> None:
        alloc, group = wanting("one", "two")
        socket = csi_socket_directory(node.root, alloc.id, group.tasks[0].name)
        socket.mkdir(parents=True)
        await node.volumes.publish(alloc, group, False)
        node.plugins.one.fails = {method: "INTERNAL"}
        node.servers.asked.clear()
        await node.volumes.release(alloc, group)
        assert node.servers.asked == [(alloc.id, "two", True)]
        assert node.records() == ["vol-one"]
        assert not socket.exists()
        node.plugins.one.fails = {method: "NOT_FOUND"}
        await node.volumes.release(alloc, group)
        assert (alloc.id, "one", True) in node.servers.asked
        assert node.records() == []

    on_node(tmp_path, work)


def test_volume_of_a_plugin_that_is_away_holds_up_no_other(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        alloc, group = wanting("one", "two")
        await node.volumes.publish(alloc, group, False)
        node.plugins.away = {"one"}
        await node.volumes.release(alloc, group)
        assert node.records() == ["vol-one"]
        assert node.plugins.two.take()[-1] == "NodeUnpublishVolume"

    on_node(tmp_path, work)


def test_volume_that_its_plugin_did_not_unmount_is_unmounted_later(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        (ended, group), (live, _) = wanting("one"), wanting("one")
        for alloc in (ended, live):
            await node.volumes.publish(alloc, group, False)
        node.plugins.away = {"one"}
        await node.volumes.release(ended, group)
        await node.volumes.unmount_left(live.id.__eq__)
        assert node.records() == ["vol-one"] * 2
        node.plugins.away.clear()
        node.plugins.one.take()
        twice = (node.volumes.unmount_left(live.id.__eq__) for _ in range(2))
        await asyncio.gather(*twice)
        assert node.plugins.one.take() == ["NodeUnpublishVolume"]
        assert [path.name for path in (node.root / "per-alloc").iterdir()] == [live.id]

    on_node(tmp_path, work)


def test_volumes_of_tasks_that_run_already_are_not_claimed_again(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        alloc, group = wanting("one")
        first = await node.volumes.publish(alloc, group, False)
        node.plugins.one.take()
        node.servers.asked.clear()
        assert await node.volumes.publish(alloc, group, True) == first
        assert (node.plugins.one.take(), node.servers.asked) == ([], [])

    on_node(tmp_path, work)


def test_claim_that_another_allocation_holds_is_waited_for(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        alloc, group = wanting("one")
        node.servers.conflicts = 5
        await node.volumes.publish(alloc, group, False)
        assert len(node.servers.asked) == 6
        node.servers.conflicts = 100
        with pytest.raises(SetupError, match='cannot use volume "one": in use') as refused:
            await node.volumes.publish(wanting("one")[0], group, False)
        assert refused.value.recoverable

    on_node(tmp_path, work)


def test_mount_that_fails_is_recorded_so_that_it_is_undone(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        alloc, group = wanting("one")
        node.plugins.one.fails = {"NodePublishVolume": "INTERNAL"}
        with pytest.raises(SetupError, match="NodePublishVolume: INTERNAL: no"):
            await node.volumes.publish(alloc, group, False)
        assert node.records() == ["vol-one"]
        node.plugins.one.fails = {"NodeExpandVolume": "INTERNAL"}
        await node.volumes.publish(alloc, group, False)  # mounted, though not enlarged

    on_node(tmp_path, work)


def test_servers_have_one_volume_unmounted_or_enlarged(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        def call(method: str, **request: Any) -> CsiCall:
            return CsiCall(7, "one", method, json.dumps(request).encode())

        alloc, group = wanting("one", "two")
        await node.volumes.publish(alloc, group, False)
        node.plugins.one.take()
        node.plugins.two.take()
        wanted = {"capacity_range": {}, "volume_capability": {}, "secrets": {}}
        for namespace, taken in (("other", []), ("default", ["NodeExpandVolume"])):
            named = {"namespace": namespace, "id": "vol-one", **wanted}
            done = await node.volumes.answer(call("NodeExpandVolume", **named))
            assert (done.call_id, done.error) == (7, "")
            assert (node.plugins.one.take(), node.plugins.two.take()) == (taken, [])
        for volume_id in ("vol-none", "vol-one"):
            released = await node.volumes.answer(
                call("Release", alloc_id=alloc.id, volume_id=volume_id)
            )
            assert released.error == ""
        assert node.records() == ["vol-two"]
        node.plugins.two.fails = {"NodeUnpublishVolume": "ABORTED"}
        failed = await node.volumes.answer(call("Release", alloc_id=alloc.id, volume_id="vol-two"))
        assert (failed.code, failed.error) == ("ABORTED", "NodeUnpublishVolume: ABORTED: no")
        node.plugins.away = {"one"}
        away = await node.volumes.answer(call("DeleteVolume"))
        assert (away.code, away.error) == ("UNAVAILABLE", "one is away")

    on_node(tmp_path, work)


# -- the plugins of the node ---------------------------------------------------------------------


class MoodyPlugin(Plugin):
    """Answers probes as it is told to."""

    ready = True

    def Probe(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"ready": {"value": self.ready}}


def test_one_of_several_tasks_that_are_one_plugin_answers_for_it(tmp_path: Path) -> None:
    async def whole() -> None:
        clock = FakeClock()
        served = {name: MoodyPlugin(tmp_path / name, name) for name in ("a", "b")}
        servers = {name: serve(served[name], f"unix:{tmp_path}/{name}.sock") for name in served}
        tasks = [PluginTask("p", "monolith", name, tmp_path / f"{name}.sock") for name in served]
        changes = asyncio.Event()
        plugins = CsiPlugins(lambda: list(tasks), clock, changes.set, lambda _task, _why: None)
        plugins.start()

        async def described_by(alloc_id: str | None) -> dict[str, object]:
            """Waits until the plugin is described by the task of that allocation, and answers."""
            async with asyncio.timeout(30):
                while True:
                    found = (plugins.described(NODE) or {}).get("p", {})
                    wanted = found.get("Healthy") and found.get("AllocID") == alloc_id
                    if wanted or (alloc_id is None and not found.get("Healthy")):
                        return found
                    await clock.advance(16.0)

        served["a"].ready = False
        found = await described_by("b")
        assert (found["HealthDescription"], found["Provider"]) == ("healthy", "test.csi")
        assert plugins.node_info("p")["ID"] == "b"
        served["a"].ready, served["b"].ready = True, False
        await described_by("a")
        served["a"].ready, served["b"].ready = False, True
        await described_by("b")
        assert plugins.node_info("p")["ID"] == "b"
        served["a"].ready, served["b"].ready = True, False
        await described_by("a")
        assert plugins.client("p", CONTROLLER) is plugins.client("p", NODE)
        served["a"].ready = False
        found = await described_by(None)
        assert found["HealthDescription"] == "it is not ready"
        with pytest.raises(DriverError, match='"p" is not healthy: it is not ready'):
            plugins.client("p", NODE)
        tasks.clear()
        changes.clear()
        async with asyncio.timeout(30):
            while plugins.described(NODE) is not None:
                await clock.advance(1.0)
        assert changes.is_set()
        with pytest.raises(DriverError, match='runs no CSI node plugin "p"'):
            plugins.client("p", NODE)
        await plugins.stop()
        for server in servers.values():
            server.stop(None).wait()

    asyncio.run(whole())


def test_plugin_that_is_not_healthy_for_its_health_timeout_is_told_of_once_each_time(
    tmp_path: Path,
) -> None:
    async def whole() -> None:
        clock = ClockOfOneLoop()
        served = MoodyPlugin(tmp_path / "a", "a")
        server = serve(served, f"unix:{tmp_path}/a.sock")
        task = PluginTask("p", "node", "a", tmp_path / "a.sock", "t", health_timeout_s=7.0)
        told: list[tuple[float, str]] = []

        def unanswered(found: PluginTask, why: str) -> None:
            assert found is task
            told.append((clock.monotonic_s(), why))

        plugins = CsiPlugins(lambda: [task], clock, lambda: None, unanswered)
        plugins.start()

        async def pass_until(is_reached: Callable[[], bool]) -> None:
            async with asyncio.timeout(60):
                while not is_reached():
                    await clock.advance(0.5)

        await pass_until(lambda: bool(plugins.described(NODE)))
        for _ in range(40):
            await clock.advance(0.5)
        assert told == []
        served.ready = False
        await pass_until(lambda: not (plugins.described(NODE) or {})["p"]["Healthy"])
        began_s = clock.monotonic_s()
        await pass_until(lambda: len(told) == 2)
        assert [why for _, why in told] == ["it is not ready"] * 2
        assert told[0][0] - began_s >= 6.0
        assert told[1][0] - told[0][0] >= 7.0
        await plugins.stop()
        server.stop(None).wait()

    asyncio.run(whole())


def test_next_attempt_of_a_plugin_is_asked_anew_and_described_meanwhile(tmp_path: Path) -> None:
    async def whole() -> None:
        clock = FakeClock()
        served = MoodyPlugin(tmp_path / "a", "first")
        server = serve(served, f"unix:{tmp_path}/a.sock")
        tasks = [PluginTask("p", "node", "a", tmp_path / "a.sock", "t", attempt="1")]
        plugins = CsiPlugins(lambda: list(tasks), clock, lambda: None, lambda _task, _why: None)
        plugins.start()

        async def until(is_reached: Callable[[dict[str, object]], bool]) -> None:
            async with asyncio.timeout(60):
                while not is_reached((plugins.described(NODE) or {}).get("p", {})):
                    await clock.advance(0.5)

        await until(lambda found: bool(found.get("Healthy")))
        served.ready, served.node_id = False, "second"
        tasks[:] = [dataclasses.replace(tasks[0], attempt="2")]
        await until(lambda found: not found["Healthy"])
        assert plugins.node_info("p")["ID"] == "first"
        served.ready = True
        await until(lambda found: bool(found["Healthy"]))
        assert plugins.node_info("p")["ID"] == "second"
        await plugins.stop()
        server.stop(None).wait()

    asyncio.run(whole())
