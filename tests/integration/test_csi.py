"""CSI with a real plugin, run as a task: fingerprint, volumes, claims, mounts, snapshots."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server_rig import ServerRig, server_rig

ROOT = str(Path(__file__).parents[2])


def plugin_job(data: Path) -> dict[str, Any]:
    task = {
        "Name": "plugin",
        "Driver": "raw_exec",
        "Config": {
            "command": sys.executable,
            "args": ["-m", "tests.support.csi_plugin", str(data), "csi-node-1"],
        },
        "Env": {"PYTHONPATH": ROOT},
        "CSIPluginConfig": {"ID": "test", "Type": "monolith"},
        "KillTimeout": 10**8,
    }
    group = {"Name": "g", "Tasks": [task]}
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
