"""What the node does on its own: garbage, volumes, ending what lost its servers, its config."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from agent.allocations.alloc_runner import AllocRunner
from agent.allocations.garbage import AllocGarbageCollector, DiskUse, EndedAlloc, to_remove
from agent.allocations.stop_when_disconnected import DisconnectWatch
from agent.config import AgentConfig, GarbageConfig, HostNetworkConfig, HostVolumeConfig
from agent.fingerprint.node import Fingerprint
from agent.local_state.store import LocalState
from agent.node.host_volumes import DynamicHostVolumes
from agent.node.registration import DEFAULT_META, NodeIdentity, build_node
from agent.node.volume_plugins import MadeVolume, VolumePlugins
from orchgit.errors import ConflictError, DriverError, InvalidInputError
from orchgit.model.group import DisconnectStrategy
from orchgit.model.mkdir_parameters import MkdirParameters, read_mkdir_parameters
from orchgit.model.node import DriverInfo, NodeResources
from orchgit.model.volume import HostVolume
from orchgit.wire.messages import AllocSet
from tests.support.agent_rig import AgentRig, mock_job, mock_task
from tests.support.polling import until
from tests.support.small_disk import small_disk

# -- garbage -----------------------------------------------------------------------------------


def test_oldest_beyond_the_count_are_removed() -> None:
    ended = [EndedAlloc("c", 3), EndedAlloc("a", 1), EndedAlloc("b", 2)]
    one = GarbageConfig(max_allocs=4, parallel_destroys=1)
    assert to_remove(ended, 0, GarbageConfig(max_allocs=1), DiskUse(10)) == ["a", "b"]
    assert to_remove(ended, 1, one, DiskUse(10, 10)) == []
    assert to_remove(ended, 2, one, DiskUse(10, 10)) == ["a"]
    assert to_remove(ended, 0, one, DiskUse(81, 10)) == ["a"]
    assert to_remove(ended, 0, one, DiskUse(10, 71)) == ["a"]
    assert to_remove([], 9, GarbageConfig(max_allocs=0), DiskUse(99, 99)) == []


def test_garbage_collection_removes_files_and_keeps_facts(tmp_path: Path) -> None:
    async def whole() -> None:
        rig = AgentRig(tmp_path)
        done = rig.deliver(mock_job(mock_task(config={"run_for": "1s"}), type="batch"))
        lives = rig.deliver(mock_job())
        await rig.until_status(lives, "running")
        await rig.until_status(done, "running")
        await rig.clock.advance(2)
        await rig.until_status(done, "complete")
        async with asyncio.timeout(60):
            await done.ended.wait()  # its report comes first
        config = GarbageConfig(max_allocs=0, disk_usage_percent=101)
        collector = AllocGarbageCollector(rig.allocs, config, tmp_path / "alloc", rig.clock)
        await collector.collect()
        assert not done.context.paths.root.exists()
        assert lives.context.paths.root.exists()
        assert rig.allocs.get(done.id).report().client_status == "complete"
        assert not await collector.collect_one(lives)
        assert lives.context.paths.root.exists()
        assert not lives.local.files_removed
        done.context.paths.root.mkdir()  # of somebody else: what was removed is removed once
        assert await collector.collect_one(done)
        await collector.collect_all()
        assert done.context.paths.root.exists()
        await rig.close()

    asyncio.run(whole())


async def ended_alloc(rig: AgentRig) -> AllocRunner:
    done = rig.deliver(mock_job(mock_task(config={"run_for": "1s"}), type="batch"))
    await rig.until_status(done, "running")
    await rig.clock.advance(2)
    await rig.until_status(done, "complete")
    async with asyncio.timeout(60):
        await done.ended.wait()  # its report comes first
    return done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_files_that_cannot_be_deleted_are_told_and_deleted_by_a_later_collection(
    tmp_path: Path,
) -> None:
    async def whole() -> None:
        rig = AgentRig(tmp_path)
        stuck, other = await ended_alloc(rig), await ended_alloc(rig)
        config = GarbageConfig(max_allocs=0, disk_usage_percent=101)
        collector = AllocGarbageCollector(rig.allocs, config, tmp_path / "alloc", rig.clock)
        root = stuck.context.paths.root
        with small_disk(root, 1), capture_logs() as logs:
            for _ in range(2):
                await collector.collect()
            said = f"cannot delete the files of allocation {stuck.id}: {root}: .*busy"
            for attempt in (collector.collect_all(), collector.collect_one(stuck)):
                with pytest.raises(DriverError, match=said):
                    await attempt
            assert not stuck.local.files_removed
            assert other.local.files_removed
            assert [entry["alloc"] for entry in logs if "cannot" in entry["event"]] == [stuck.id]
        await collector.collect()
        assert stuck.local.files_removed
        assert not root.exists()
        await rig.close()

    asyncio.run(whole())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_forgotten_allocation_is_kept_until_its_files_are_deleted(tmp_path: Path) -> None:
    async def whole() -> None:
        rig = AgentRig(tmp_path)
        done = await ended_alloc(rig)
        root = done.context.paths.root
        (root / "mark").touch()
        with small_disk(root, 1), capture_logs() as logs:
            rig.allocs.take(AllocSet(1 << 40, [], []))
            await until(lambda: any("cannot delete" in entry["event"] for entry in logs))
            assert rig.allocs.knows(done.id)
        while rig.allocs.knows(done.id):
            await rig.clock.advance(1)
        assert not root.exists()
        await rig.close()

    asyncio.run(whole())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_disk_and_inodes_are_measured_each_on_its_own(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        empty = DiskUse.of(disk.directory)
        for number in range(100):
            (disk.directory / str(number)).touch()
        many = DiskUse.of(disk.directory)
        assert many.inode_percent > empty.inode_percent
        assert many.disk_percent == empty.disk_percent
        disk.fill()
        full = DiskUse.of(disk.directory)
        assert full.disk_percent == 100
        assert full.inode_percent < 50


def test_file_system_without_a_count_is_not_full() -> None:
    assert DiskUse.of(Path("/proc")) == DiskUse(0.0, 0.0)


# -- without servers ---------------------------------------------------------------------------


def test_disconnected_node_stops_allocations_with_a_limit_at_their_limit(tmp_path: Path) -> None:
    async def whole() -> None:
        rig = AgentRig(tmp_path)
        strategy = DisconnectStrategy(stop_on_client_after_ns=30 * 10**9)
        mortal, other = rig.deliver(mock_job(disconnect=strategy)), rig.deliver(mock_job())
        for runner in (mortal, other):
            await rig.until_status(runner, "running")
        stopper = DisconnectWatch(rig.allocs, rig.clock)
        stopper.contact_changed(connected=False)
        await rig.clock.advance(29)
        stopper.contact_changed(connected=True)
        await rig.clock.advance(100)
        assert rig.last(mortal).client_status == "running"
        stopper.contact_changed(connected=False)
        await rig.clock.advance(31)
        await rig.until_status(mortal, "complete")
        assert "no server was reachable" in rig.last(mortal).client_description
        assert rig.last(other).client_status == "running"
        await stopper.stop()
        await rig.close()

    asyncio.run(whole())


# -- volumes -----------------------------------------------------------------------------------


def test_dynamic_volumes_are_made_stored_and_removed(tmp_path: Path) -> None:
    async def whole() -> None:
        changes: list[int] = []
        local = LocalState(tmp_path / "state.db")
        volumes = DynamicHostVolumes(
            VolumePlugins(tmp_path / "volumes"), local, lambda: changes.append(1)
        )
        made = await volumes.create(HostVolume(id="1-a", name="data"))
        assert Path(made.host_path).is_dir()
        with pytest.raises(ConflictError, match="another of that name"):
            await volumes.create(HostVolume(id="2-b", name="data"))
        with pytest.raises(InvalidInputError, match="no plugin"):
            await volumes.create(HostVolume(id="3", name="x", plugin_id="fancy"))
        with pytest.raises(InvalidInputError, match="id of a volume"):
            await volumes.create(HostVolume(id="../x", name="y"))
        again = DynamicHostVolumes(VolumePlugins(tmp_path / "volumes"), local, lambda: None)
        assert [volume.name for volume in again] == ["data"]
        await volumes.delete("1-a")
        await volumes.delete("1-a")
        assert not Path(made.host_path).exists()
        assert len(changes) == 2
        local.close()

    asyncio.run(whole())


def test_node_has_exactly_the_volumes_that_the_servers_name(tmp_path: Path) -> None:
    async def whole() -> None:
        local = LocalState(tmp_path / "state.db")
        volumes = DynamicHostVolumes(VolumePlugins(tmp_path / "volumes"), local, lambda: None)
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        registered = HostVolume(id="r", name="reg", host_path=str(theirs))
        await volumes.take([HostVolume(id="a", name="data"), registered])
        assert {volume.name for volume in volumes} == {"data", "reg"}
        await volumes.take([])
        assert list(volumes) == []
        assert theirs.is_dir()
        local.close()

    asyncio.run(whole())


PLUGIN = """#!/bin/sh
set -eu
test "$1" = "$DHV_OPERATION"
case $1 in
  fingerprint) echo '{"version": "1.2.3"}' ;;
  create)
    test "$DHV_NODE_ID $DHV_NODE_POOL" = "n p"
    test "$DHV_PARAMETERS" = '{"fail":"no"}' || { echo "no such disk" >&2; exit 3; }
    mkdir -p "$DHV_VOLUMES_DIR/made-$DHV_VOLUME_ID"
    echo "$DHV_VOLUME_NAME $DHV_NAMESPACE" >> "$DHV_VOLUMES_DIR/made-$DHV_VOLUME_ID/made"
    path="$DHV_VOLUMES_DIR/made-$DHV_VOLUME_ID"
    echo "{\\"path\\": \\"$path\\", \\"bytes\\": $DHV_CAPACITY_MAX_BYTES}" ;;
  delete) rm -r "$DHV_CREATED_PATH" ;;
esac
"""


def plugins_in(directory: Path) -> VolumePlugins:
    directory.mkdir(exist_ok=True)
    for name, text in (("disk", PLUGIN), ("broken", "#!/bin/sh\necho no\n"), ("text", "")):
        (directory / name).write_text(text)
        (directory / name).chmod(0o644 if name == "text" else 0o755)
    node = {"DHV_NODE_ID": "n", "DHV_NODE_POOL": "p"}
    return VolumePlugins(directory.parent / "volumes", directory, node)


def test_executable_is_a_plugin_that_makes_and_deletes_volumes(tmp_path: Path) -> None:
    async def whole() -> None:
        local = LocalState(tmp_path / "state.db")
        plugins = plugins_in(tmp_path / "plugins")
        await plugins.find()
        assert plugins.versions == {"mkdir": "0.0.1", "disk": "1.2.3"}
        volumes = DynamicHostVolumes(plugins, local, lambda: None)
        asked = HostVolume(
            id="a-1",
            name="data",
            plugin_id="disk",
            parameters={"fail": "no"},
            requested_capacity_max_bytes=7,
        )
        bad = HostVolume(id="b-1", name="bad", plugin_id="disk", parameters={"fail": "yes"})
        await volumes.take([asked, bad])
        [made] = volumes
        assert (made.id, made.capacity_bytes, made.state) == ("a-1", 7, "ready")
        results = {each.volume_id: each for each in volumes.results()}
        assert results["a-1"].error == ""
        assert "ended with 3 on create: no such disk" in results["b-1"].error
        again = DynamicHostVolumes(plugins, local, lambda: None)
        await again.restore()
        assert (Path(made.host_path) / "made").read_text() == "data default\n" * 2
        larger = msgspec.structs.replace(asked, requested_capacity_max_bytes=9)
        await again.take([larger])
        assert [each.capacity_bytes for each in again] == [9]
        await again.take([])
        assert not Path(made.host_path).exists()
        local.close()

    asyncio.run(whole())


def test_volume_without_its_plugin_is_made_when_the_plugin_is_there_again(tmp_path: Path) -> None:
    async def whole() -> None:
        local = LocalState(tmp_path / "state.db")
        plugins = plugins_in(tmp_path / "plugins")
        await plugins.find()
        first = DynamicHostVolumes(plugins, local, lambda: None)
        asked = HostVolume(id="a-1", name="data", plugin_id="disk", parameters={"fail": "no"})
        await first.take([asked])
        (tmp_path / "plugins" / "disk").rename(tmp_path / "away")
        await plugins.find()
        assert plugins.versions == {"mkdir": "0.0.1"}
        again = DynamicHostVolumes(plugins, local, lambda: None)
        await again.restore()
        assert list(again) == []
        assert 'this node has no plugin "disk"' in again.results()[0].error
        (tmp_path / "away").rename(tmp_path / "plugins" / "disk")
        await plugins.find()
        await again.try_again()
        assert [each.id for each in again] == ["a-1"]
        local.close()

    asyncio.run(whole())


class HangingPlugins(VolumePlugins):
    """Makes no volume named `hangs`."""

    async def create(self, volume: HostVolume) -> MadeVolume:
        if volume.name == "hangs":
            await asyncio.Event().wait()
        return await super().create(volume)


def test_plugin_that_hangs_holds_up_no_other_volume(tmp_path: Path) -> None:
    async def whole() -> None:
        local = LocalState(tmp_path / "state.db")
        volumes = DynamicHostVolumes(HangingPlugins(tmp_path / "volumes"), local, lambda: None)
        wanted = [HostVolume(id="a", name="hangs"), HostVolume(id="b", name="data")]
        taking = asyncio.create_task(volumes.take(wanted))
        await until(lambda: [each.id for each in volumes] == ["b"])
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        local.close()

    asyncio.run(whole())


def test_mkdir_takes_mode_and_owner_and_nothing_else(tmp_path: Path) -> None:
    async def whole() -> None:
        plugins = VolumePlugins(tmp_path / "volumes")
        volume = HostVolume(id="a", name="data", parameters={"mode": "0750"})
        made = await plugins.create(volume)
        assert Path(made.path).stat().st_mode & 0o7777 == 0o750
        for parameters in ({"color": "red"}, {"mode": "rwx"}, {"uid": "root"}):
            with pytest.raises(InvalidInputError, match="mkdir"):
                await plugins.create(HostVolume(id="b", name="b", parameters=parameters))

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        *(({"mode": mode}, "cannot use mode") for mode in ("-755", "0o755", "7_5", "", " 7", "8")),
        *(({"mode": mode}, "cannot use mode") for mode in ("17777", "\u0667", "755\n")),
        *(({"uid": uid}, "cannot use uid") for uid in ("-5", "", "+5", "1_0", "\u0663", "root")),
        *(({"gid": gid}, "cannot use gid") for gid in ("4294967295", "-2", "1" * 30)),
        ({"color": "red"}, 'cannot use parameter "color"'),
    ],
)
def test_parameter_that_mkdir_cannot_use_is_named(parameters: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        read_mkdir_parameters(parameters)


def test_parameters_of_mkdir_have_defaults_and_bounds() -> None:
    assert read_mkdir_parameters({}) == MkdirParameters(0o777, -1, -1)
    wanted = {"mode": "02750", "uid": "4294967294", "gid": "-1"}
    assert read_mkdir_parameters(wanted) == MkdirParameters(0o2750, 4294967294, -1)


def test_volume_that_cannot_be_made_holds_up_no_other_and_is_tried_again(tmp_path: Path) -> None:
    async def whole() -> None:
        local = LocalState(tmp_path / "state.db")
        volumes = DynamicHostVolumes(VolumePlugins(tmp_path / "volumes"), local, lambda: None)
        bad = HostVolume(id="a", name="bad", parameters={"uid": "-5"})
        gone = HostVolume(id="b", name="gone", host_path=str(tmp_path / "theirs"))
        await volumes.take([bad, gone, HostVolume(id="c", name="good")])
        assert [each.name for each in volumes] == ["good"]
        errors = {each.volume_id: each.error for each in volumes.results()}
        assert "cannot use uid" in errors["a"]
        assert "is no directory of this node" in errors["b"]
        (tmp_path / "theirs").mkdir()
        good = msgspec.structs.replace(bad, parameters={})
        await volumes.take([good, gone])
        assert sorted(each.name for each in volumes) == ["bad", "gone"]
        await volumes.take([bad, gone])
        assert [each.name for each in volumes] == ["gone"]
        await volumes.take([good, gone])  # as it was when it was made
        assert sorted(each.name for each in volumes) == ["bad", "gone"]
        local.close()

    asyncio.run(whole())


# -- config and node ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"servers": ()}, "name at least one"),
        ({"servers": ("nowhere",)}, '"nowhere" is not host:port'),
        ({"servers": ("h:99999",)}, "is not host:port"),
        ({"host_volumes": {"v": HostVolumeConfig(path="rel")}}, "needs an absolute path"),
        ({"garbage": GarbageConfig(max_allocs=-1)}, "must not be negative"),
    ],
)
def test_wrong_config_is_refused_at_once(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        AgentConfig(**{"data_dir": tmp_path, "servers": ("127.0.0.1:1",), **fields})


def test_node_combines_config_fingerprint_drivers_and_volumes(tmp_path: Path) -> None:
    config = AgentConfig(
        data_dir=tmp_path,
        servers=("127.0.0.1:1",),
        node_name="n",
        meta={"a": "b"},
        host_volumes={"data": HostVolumeConfig(path=str(tmp_path), read_only=True)},
        host_networks={"inner": HostNetworkConfig(cidr="10.0.0.0/8", reserved_ports="22")},
    )
    node = build_node(
        config,
        NodeIdentity("id", "secret"),
        Fingerprint(attributes={"cpu.arch": "x"}, resources=NodeResources()),
        {"docker": DriverInfo(detected=True, healthy=True, attributes={"driver.docker": "1"})},
        [HostVolume(id="1", name="made", host_path="/m"), HostVolume(id="2", name="data")],
        {"plugins.host_volume.mkdir.version": "0.0.1"},
    )
    assert (node.id, node.name, node.meta) == ("id", "n", {**DEFAULT_META, "a": "b"})
    assert node.attributes == {
        "cpu.arch": "x",
        "driver.docker": "1",
        "plugins.host_volume.mkdir.version": "0.0.1",
    }
    assert node.host_volumes["made"].id == "1"
    assert (node.host_volumes["data"].path, node.host_volumes["data"].id) == (str(tmp_path), "")
    inner = {"Name": "inner", "CIDR": "10.0.0.0/8", "Interface": "", "ReservedPorts": "22"}
    assert node.host_networks == {"inner": inner}
