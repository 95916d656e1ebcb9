"""CSI with a real plugin, run as a task: fingerprint, volumes, claims, mounts, snapshots."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from orchgit.cli.main import cli
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig, server_rig

KINDS = ("controller", "node")
ROOT = str(Path(__file__).parents[2])


def plugin_task(data: Path, plugin_id: str, kind: str) -> dict[str, Any]:
    return {
        "Name": kind,
        "Driver": "raw_exec",
        "Config": {
            "command": sys.executable,
            "args": ["-m", "tests.support.csi_plugin", str(data), "csi-node-1"],
        },
        "Env": {"PYTHONPATH": ROOT},
        "CSIPluginConfig": {"ID": plugin_id, "Type": kind},
        "KillTimeout": 10**8,
    }


def plugin_job(data: Path) -> dict[str, Any]:
    group = {"Name": "g", "Tasks": [plugin_task(data, "test", "monolith")]}
    return {"ID": "plugin", "Name": "plugin", "Type": "service", "TaskGroups": [group]}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    root = tmp_path_factory.mktemp("csi")
    with server_rig(root) as rig:
        rig.wait_ready_node()
        rig.register(plugin_job(root / "plugin"))
        rig.wait_for("/v1/plugins", lambda found: found and found[0]["NodesHealthy"] == 1)
        yield rig


def test_plugin_is_found_with_what_it_can(rig: ServerRig) -> None:
    [plugin] = rig.http.get("/v1/plugins").json()
    assert (plugin["ID"], plugin["Provider"], plugin["ControllersHealthy"]) == (
        "test",
        "test.csi",
        1,
    )
    whole = rig.http.get("/v1/plugin/csi/test").json()
    [controller] = whole["Controllers"].values()
    assert controller["ControllerInfo"]["SupportsCreateDelete"]
    assert not controller["ControllerInfo"]["SupportsClone"]
    [node] = whole["Nodes"].values()
    assert node["NodeInfo"]["ID"] == "csi-node-1"
    assert node["NodeInfo"]["AccessibleTopology"] == {"Segments": {"test.csi/rack": "r1"}}
    assert node["NodeInfo"]["RequiresNodeStageVolume"]
    assert [each["JobID"] for each in whole["Allocations"]] == ["plugin"]
    assert rig.http.get("/v1/plugin/csi/none").status_code == 404


CAPABILITY = {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}


def volume(volume_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "ID": volume_id,
        "Name": volume_id,
        "PluginID": "test",
        "RequestedCapabilities": [CAPABILITY],
        **fields,
    }


def create(rig: ServerRig, volume_id: str, **fields: Any) -> Any:
    body = {"Volumes": [{**volume(volume_id), **fields}]}
    path = f"/v1/volume/csi/{quote(str(fields.get('ID', volume_id)))}/create"
    return rig.http.put(path, json=body)


def user_job(job_id: str, source: str, script: str, **fields: Any) -> dict[str, Any]:
    task = {
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", script]},
        "VolumeMounts": [{"Volume": "v", "Destination": "data"}],
        "KillTimeout": 10**8,
    }
    request = {
        "Name": "v",
        "Type": "csi",
        "Source": source,
        "AccessMode": "single-node-writer",
        "AttachmentMode": "file-system",
        **fields,
    }
    group = {"Name": "g", "Volumes": {"v": request}, "Tasks": [task]}
    return {"ID": job_id, "Name": job_id, "Type": "batch", "TaskGroups": [group]}


def calls(root: Path, volume_id: str) -> list[str]:
    lines = (root / "plugin" / "calls").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [name for name, request in found if request.get("volume_id") == f"ext-{volume_id}"]


def claims_gone(found: dict[str, Any]) -> bool:
    return not found["ReadAllocs"] and not found["WriteAllocs"]


def test_volume_is_created_claimed_mounted_and_released(rig: ServerRig) -> None:
    answer = create(rig, "data", Secrets={"key": "hidden"}, RequestedCapacityMin=100)
    assert answer.status_code == 200, answer.text
    [made] = answer.json()["Volumes"]
    assert (made["ExternalID"], made["Capacity"]) == ("ext-data", 100)
    assert "hidden" not in answer.text
    assert made["Schedulable"]
    script = "echo hello > data/file; while [ ! -e data/end ]; do sleep 0.05; done"
    rig.register(user_job("writer", "data", script))
    held = rig.wait_for("/v1/volume/csi/data", lambda found: found["WriteAllocs"])
    [claim] = held["WriteClaims"].values()
    assert claim["ExternalNodeID"] == "csi-node-1"
    disk = rig.data_dir / "plugin" / "volumes" / "ext-data"
    until_blocking((disk / "file").exists)
    refused = rig.http.delete("/v1/volume/csi/data/delete")
    assert (refused.status_code, refused.text) == (500, "volume in use: data")
    [stub] = rig.http.get("/v1/volumes?type=csi&prefix=da").json()
    assert (stub["CurrentWriters"], stub["CurrentReaders"]) == (1, 0)
    (disk / "end").touch()
    rig.wait_for("/v1/volume/csi/data", claims_gone)
    assert calls(rig.data_dir, "data") == [
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeExpandVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "ControllerUnpublishVolume",
    ]
    assert not list((rig.data_dir / "plugin" / "published").iterdir())
    assert not list((rig.data_dir / "agent" / "csi" / "per-alloc").iterdir())
    rig.http.delete("/v1/job/writer?purge=true").raise_for_status()
    rig.http.delete("/v1/volume/csi/data/delete").raise_for_status()
    assert not disk.exists()
    assert rig.http.get("/v1/volume/csi/data").status_code == 404


def test_volume_that_exists_is_registered_with_one_for_each_allocation(rig: ServerRig) -> None:
    for number in range(2):
        external = f"ext-many[{number}]"
        (rig.data_dir / "plugin" / "volumes" / external).mkdir()
        body = {"Volumes": [volume(f"many[{number}]", ExternalID=external)]}
        answer = rig.http.put(f"/v1/volume/csi/many[{number}]", json=body)
        assert answer.status_code == 200, answer.text
    missing = {"Volumes": [volume("none", ExternalID="ext-none")]}
    assert "no volume ext-none" in rig.http.put("/v1/volume/csi/none", json=missing).text
    job = user_job("many", "many", "echo $NOMAD_ALLOC_INDEX > data/index", PerAlloc=True)
    job["TaskGroups"][0]["Count"] = 2
    rig.register(job)
    for number in range(2):
        path = rig.data_dir / "plugin" / "volumes" / f"ext-many[{number}]" / "index"
        assert until_blocking(lambda at=path: at.exists() and at.read_text()) == f"{number}\n"
        rig.wait_for(f"/v1/volume/csi/many[{number}]", claims_gone)
        rig.http.delete(f"/v1/volume/csi/many[{number}]").raise_for_status()
        assert path.exists()
    rig.http.delete("/v1/job/many?purge=true").raise_for_status()


def test_snapshot_and_expansion(rig: ServerRig) -> None:
    create(rig, "first", RequestedCapacityMin=10).raise_for_status()
    (rig.data_dir / "plugin" / "volumes" / "ext-first" / "kept").write_text("kept")
    body = {"Snapshots": [{"SourceVolumeID": "first", "Name": "s1"}]}
    [made] = rig.http.put("/v1/volumes/snapshot", json=body).json()["Snapshots"]
    assert (made["ID"], made["IsReady"]) == ("snap-s1", True)
    listed = rig.http.get("/v1/volumes/snapshot?plugin_id=test").json()["Snapshots"]
    assert [each["ID"] for each in listed] == ["snap-s1"]
    create(rig, "copy", SnapshotID="snap-s1").raise_for_status()
    assert (rig.data_dir / "plugin" / "volumes" / "ext-copy" / "kept").read_text() == "kept"
    rig.http.delete("/v1/volumes/snapshot?plugin_id=test&snapshot_id=snap-s1").raise_for_status()
    assert rig.http.get("/v1/volumes/snapshot?plugin_id=test").json()["Snapshots"] == []
    [larger] = create(rig, "first", RequestedCapacityMin=50).json()["Volumes"]
    assert larger["Capacity"] == 50
    external = rig.http.get("/v1/volumes/external?plugin_id=test").json()["Volumes"]
    assert {"ext-first", "ext-copy"} <= {each["ExternalID"] for each in external}
    for name in ("first", "copy"):
        rig.http.delete(f"/v1/volume/csi/{name}/delete").raise_for_status()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"PluginID": "nosuch"}, "no CSI plugin named: nosuch could be found"),
        ({"RequestedCapabilities": []}, "must include at least one capability"),
        ({"Parameters": {"fail": "full"}}, "OUT_OF_RANGE: full"),
        ({"ID": "a" * 241}, "more than 240 bytes"),
        ({"ID": "a\tb"}, "is no id of a volume"),
        ({"SnapshotID": "a", "CloneID": "b"}, "only one of snapshot_id and clone_id"),
        ({"RequestedCapacityMin": 9, "RequestedCapacityMax": 8}, "must not be smaller"),
    ],
)
def test_volume_that_cannot_be_made_is_refused(
    rig: ServerRig, fields: dict[str, Any], words: str
) -> None:
    answer = create(rig, "bad", **fields)
    assert answer.status_code == 500
    assert words in answer.text
    assert rig.http.get("/v1/volume/csi/bad").status_code == 404


def test_topology_of_a_volume_survives_its_change_and_places_its_users(rig: ServerRig) -> None:
    (rig.data_dir / "plugin" / "volumes" / "ext-far").mkdir()
    far = {"Required": [{"Segments": {"test.csi/rack": "r2"}}]}
    body = {"Volumes": [volume("far", ExternalID="ext-far", RequestedTopologies=far)]}
    rig.http.put("/v1/volume/csi/far", json=body).raise_for_status()
    assert rig.http.get("/v1/volume/csi/far").json()["Topologies"] == far["Required"]
    rig.register(user_job("distant", "far", "true"))
    evaluations = rig.wait_for(
        "/v1/job/distant/evaluations",
        lambda found: any(each.get("FailedTGAllocs") for each in found),
    )
    assert "topology requirement of volume far" in str(evaluations)
    rig.http.delete("/v1/job/distant?purge=true").raise_for_status()
    body["Volumes"] = [volume("far", ExternalID="ext-far")]
    rig.http.put("/v1/volume/csi/far", json=body).raise_for_status()
    create(rig, "far", RequestedCapacityMin=0).raise_for_status()
    assert rig.http.get("/v1/volume/csi/far").json()["Topologies"] == far["Required"]
    rig.http.delete("/v1/volume/csi/far").raise_for_status()


def test_commands_make_show_and_forget_a_volume(rig: ServerRig, tmp_path: Path) -> None:
    (tmp_path / "v.hcl").write_text(
        """
        id           = "web"
        name         = "web"
        type         = "csi"
        plugin_id    = "test"
        capacity_min = "1MiB"
        capability {
          access_mode     = "single-node-writer"
          attachment_mode = "file-system"
        }
        topology_request {
          required {
            topology {
              segments { "test.csi/rack" = "r1" }
            }
          }
        }
        """
    )

    def run(*arguments: str) -> str:
        address = f"http://{rig.server.http_address}"
        done = CliRunner().invoke(cli, [*arguments], env={"ORCHGIT_ADDR": address})
        assert done.exit_code == 0, done.output
        return done.output

    assert "Volume 'web' is made" in run("volume", "create", str(tmp_path / "v.hcl"))
    stored = rig.http.get("/v1/volume/csi/web").json()
    assert stored["Capacity"] == 1 << 20
    wanted = {"Required": [{"Segments": {"test.csi/rack": "r1"}}], "Preferred": []}
    assert stored["RequestedTopologies"] == wanted
    assert "ext-web" in run("volume", "status", "web")
    assert "snap-s1" in run("volume", "snapshot", "create", "web", "s1")
    secret = ("-secret", "key=s3cret=", "-secret", "other=x")
    assert "snap-s1" in run("volume", "snapshot", "list", "-plugin", "test", *secret)
    run("volume", "snapshot", "delete", *secret, "test", "snap-s1")
    lines = (rig.data_dir / "plugin" / "calls").read_text().splitlines()
    got = [request["secrets"] for name, request in map(json.loads, lines) if "Snapshot" in name]
    assert got[-2:] == [{"key": "s3cret=", "other": "x"}] * 2
    path = "/v1/volumes/snapshot?plugin_id=test"
    odd = rig.http.get(path, headers={"X-Nomad-CSI-Secrets": "odd"})
    assert (odd.status_code, "odd" in odd.text) == (400, False)
    run("volume", "deregister", "web")
    assert rig.http.get("/v1/volume/csi/web").status_code == 404


def test_two_plugins_one_of_them_in_three_tasks_serve_one_allocation(rig: ServerRig) -> None:
    data = rig.data_dir / "pair"
    groups = [
        {"Name": "parts", "Tasks": [plugin_task(data, "pair", each) for each in KINDS]},
        {"Name": "again", "Tasks": [plugin_task(data, "pair", "node")]},
    ]
    rig.register({"ID": "pair", "Name": "pair", "Type": "service", "TaskGroups": groups})

    def healthy(found: dict[str, Any]) -> bool:
        return bool(found["NodesHealthy"] == found["ControllersHealthy"] == 1)

    rig.wait_for("/v1/plugin/csi/pair", healthy)
    sockets = rig.data_dir / "agent" / "csi" / "plugins"
    until_blocking(lambda: len(list(sockets.glob("*/csi.sock"))) == 4)
    create(rig, "one").raise_for_status()
    create(rig, "two", PluginID="pair").raise_for_status()
    script = "echo 1 > data/f; echo 2 > more/f; while [ ! -e more/end ]; do sleep 0.05; done"
    job = user_job("both", "one", script)
    [group] = job["TaskGroups"]
    group["Volumes"]["w"] = {**group["Volumes"]["v"], "Name": "w", "Source": "two"}
    group["Tasks"][0]["VolumeMounts"].append({"Volume": "w", "Destination": "more"})
    rig.register(job)
    for name, at in (("one", rig.data_dir / "plugin"), ("two", data)):
        rig.wait_for(f"/v1/volume/csi/{name}", lambda found: found["WriteAllocs"])
        until_blocking((at / "volumes" / f"ext-{name}" / "f").exists)
    running = rig.http.get("/v1/job/pair/allocations").json()
    [allocation] = [each for each in running if each["TaskGroup"] == "parts"]
    rig.http.put(f"/v1/allocation/{allocation['ID']}/stop").raise_for_status()
    rig.wait_for(f"/v1/allocation/{allocation['ID']}", lambda a: a["ClientStatus"] == "complete")
    (data / "volumes" / "ext-two" / "end").touch()
    for name in ("one", "two"):
        rig.wait_for(f"/v1/volume/csi/{name}", claims_gone)
    assert not list((rig.data_dir / "agent" / "csi" / "per-alloc").iterdir())
    rig.http.delete("/v1/job/both?purge=true").raise_for_status()
    rig.wait_for("/v1/plugin/csi/pair", healthy)
    rig.http.delete("/v1/volume/csi/two/delete").raise_for_status()
    rig.http.delete("/v1/volume/csi/one/delete").raise_for_status()
    rig.http.delete("/v1/job/pair?purge=true").raise_for_status()
    rig.wait_for("/v1/plugins", lambda found: [each["ID"] for each in found] == ["test"])
    until_blocking(lambda: len(list(sockets.iterdir())) == 1)


def test_mounted_volume_is_enlarged_on_its_node_and_secrets_stay_hidden(rig: ServerRig) -> None:
    hidden = {"key": "hunter2-secret"}
    create(rig, "grows", Secrets=hidden, RequestedCapacityMin=10).raise_for_status()
    disk = rig.data_dir / "plugin" / "volumes" / "ext-grows"
    script = "touch data/up; while [ ! -e data/end ]; do sleep 0.05; done"
    rig.register(user_job("grower", "grows", script, MountOptions={"FSType": "xfs"}))
    until_blocking((disk / "up").exists)
    options = {"FSType": "ext4", "MountFlags": ["noatime,password=hunter3"]}
    larger = create(rig, "grows", Secrets=hidden, RequestedCapacityMin=50, MountOptions=options)
    assert larger.json()["Volumes"][0]["Capacity"] == 50
    assert calls(rig.data_dir, "grows")[-2:] == ["ControllerExpandVolume", "NodeExpandVolume"]
    failed = create(rig, "grows", Secrets=hidden, RequestedCapacityMin=66, MountOptions=options)
    assert failed.status_code == 500
    assert "cannot be enlarged where it is mounted" in failed.text
    assert "no room with {'key': '[REDACTED]'} at https://[REDACTED]@store/" in failed.text
    stored = rig.http.get("/v1/volume/csi/grows")
    assert stored.json()["Capacity"] == 66
    assert stored.json()["MountOptions"] == {"FSType": "ext4", "MountFlags": ["[REDACTED]"]}
    assert "hunter" not in stored.text
    (disk / "end").touch()
    rig.wait_for("/v1/volume/csi/grows", claims_gone)
    rig.http.delete("/v1/job/grower?purge=true").raise_for_status()
    rig.register(user_job("next", "grows", "touch data/again", MountOptions={"FSType": "xfs"}))
    until_blocking((disk / "again").exists)
    lines = (rig.data_dir / "plugin" / "calls").read_text().splitlines()
    staged = [json.loads(line)[1] for line in lines if line.startswith('["NodeStageVolume"')][-1]
    assert staged["volume_capability"]["mount"] == {
        "fs_type": "xfs",
        "mount_flags": ["noatime,password=hunter3"],
    }
    rig.wait_for("/v1/volume/csi/grows", claims_gone)
    rig.http.delete("/v1/job/next?purge=true").raise_for_status()
    rig.http.delete("/v1/volume/csi/grows/delete").raise_for_status()


def test_volumes_of_one_name_in_two_namespaces_are_two(rig: ServerRig) -> None:
    rig.http.put("/v1/namespace", json={"Name": "team"}).raise_for_status()
    create(rig, "same").raise_for_status()
    body = {"Volumes": [volume("same", Namespace="team")]}
    [other] = rig.http.put("/v1/volume/csi/same/create", json=body).json()["Volumes"]
    assert (other["Namespace"], other["ExternalID"]) == ("team", "ext-team.same")
    shared = create(rig, "third", Name="same")
    assert shared.status_code == 500
    assert "which is volume same of namespace default; choose another name" in shared.text
    assert rig.http.get("/v1/volume/csi/third").status_code == 404
    rig.http.delete("/v1/volume/csi/same/delete").raise_for_status()
    rig.http.delete("/v1/volume/csi/same/delete?namespace=team").raise_for_status()
    rig.http.delete("/v1/namespace/team").raise_for_status()
