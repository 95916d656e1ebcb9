"""Volumes made by an executable on the node: over the API, into a task, and away again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.server_rig import server_rig
from tests.unit.agent.test_node_keeping import PLUGIN


def test_volume_of_a_plugin_is_created_mounted_and_deleted(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "disk").write_text(PLUGIN.replace('test "$DHV_NODE_ID $DHV_NODE_POOL" = "n p"', ""))
    (plugins / "disk").chmod(0o755)
    config = {"host_volume_plugin_dir": plugins}
    with server_rig(tmp_path, agent_config=config) as rig:
        node_id = rig.wait_ready_node()
        attributes = rig.http.get(f"/v1/node/{node_id}").json()["Attributes"]
        assert attributes["plugins.host_volume.disk.version"] == "1.2.3"

        def create(**fields: Any) -> Any:
            volume = {"Name": "data", "PluginID": "disk", "Parameters": {"fail": "no"}, **fields}
            return rig.http.put("/v1/volume/host/create", json={"Volume": volume})

        failed = create(Parameters={"fail": "yes"})
        assert failed.status_code == 500
        assert "no such disk" in failed.text
        assert rig.http.get("/v1/volumes?type=host").json() == []
        events = rig.http.get(f"/v1/node/{node_id}").json()["Events"]
        assert any("no such disk" in each["Message"] for each in events)
        assert "no node meets constraints" in create(PluginID="nosuch").text
        elsewhere = {"LTarget": "${node.datacenter}", "RTarget": "mars", "Operand": "="}
        assert "no node meets constraints" in create(Constraints=[elsewhere]).text
        answer = create(RequestedCapacityMinBytes=5, RequestedCapacityMaxBytes=9)
        assert answer.status_code == 200, answer.text
        made = answer.json()["Volume"]
        assert made["State"] == "pending"  # as clients know it, though the node has made it
        assert rig.http.get(f"/v1/volume/host/{made['ID']}").json()["State"] == "ready"
        stored = rig.wait_for(
            f"/v1/volume/host/{made['ID']}", lambda volume: volume["CapacityBytes"] == 9
        )
        path = Path(stored["HostPath"])
        assert (path / "made").exists()
        other = create(ID=made["ID"], NodeID=node_id, Parameters={"fail": "yes"})
        assert other.status_code == 200, other.text
        rig.wait_for(f"/v1/volume/host/{made['ID']}", lambda v: v["State"] == "unavailable")
        create(ID=made["ID"], NodeID=node_id).raise_for_status()
        rig.wait_for(f"/v1/volume/host/{made['ID']}", lambda v: v["State"] == "ready")
        task = {
            "Name": "t",
            "Driver": "raw_exec",
            "Config": {"command": "/bin/sh", "args": ["-c", "echo hello > data/from-task"]},
            "VolumeMounts": [{"Volume": "v", "Destination": "data"}],
        }
        request = {"Name": "v", "Type": "host", "Source": "data"}
        group = {"Name": "g", "Volumes": {"v": request}, "Tasks": [task]}
        rig.register({"ID": "uses", "Type": "batch", "TaskGroups": [group]})
        rig.wait_for(
            "/v1/job/uses/allocations",
            lambda allocs: allocs and allocs[0]["ClientStatus"] == "complete",
        )
        assert (path / "from-task").read_text() == "hello\n"
        rig.http.delete("/v1/job/uses?purge=true").raise_for_status()
        rig.http.delete(f"/v1/volume/host/{made['ID']}").raise_for_status()
        rig.wait_for(f"/v1/node/{node_id}", lambda node: not node["HostVolumes"])
        assert not path.exists()
