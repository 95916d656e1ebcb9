"""CSI plugins that are containers: what they mount is there for the node and for other tasks."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.csi.mount_records import STAGING
from agent.hooks.secrets_mount import unmount_below
from tests.integration.test_csi import ROOT, claims_gone, create, user_job
from tests.support import docker_engine, podman_engine
from tests.support.polling import until_blocking
from tests.support.server_rig import DRIVERS, ServerRig

HOST = ("/usr", "/lib", "/lib64", ROOT, sys.prefix, sys.base_prefix)
"""What the plugin's Python needs of the machine."""


@pytest.fixture(
    params=[
        pytest.param("docker", marks=[docker_engine.needs_docker, pytest.mark.docker]),
        pytest.param("podman", marks=podman_engine.needs_podman),
    ]
)
def rig(request: pytest.FixtureRequest) -> Iterator[ServerRig]:
    with shared_directory() as root:
        with_config = {"allow_caps": ["all"], "volumes": {"enabled": True}}
        drivers: dict[str, dict[str, Any]] = {**DRIVERS}
        if request.param == "docker":
            drivers["docker"] = {"endpoint": docker_engine.engine().endpoint, **with_config}
        else:
            drivers["podman"] = {"socket_path": f"unix://{podman_engine.socket()}", **with_config}
        rig = ServerRig(root, agent_config={"drivers": drivers})
        rig.start()
        try:
            rig.wait_ready_node()
            yield rig
            rig.http.delete("/v1/job/plugin").raise_for_status()
            rig.wait_for(
                "/v1/job/plugin/allocations",
                lambda found: [each["ClientStatus"] for each in found] == ["complete"],
            )
        finally:
            rig.stop()


@contextmanager
def shared_directory() -> Iterator[Path]:
    """Of a short path, for sockets; its mounts reach containers, and theirs the machine."""
    with tempfile.TemporaryDirectory(prefix="csi-") as name:
        subprocess.run(["mount", "--bind", name, name], check=True)
        subprocess.run(["mount", "--make-shared", name], check=True)
        try:
            yield Path(name)
        finally:
            unmount_below(Path(name))
            subprocess.run(["umount", "--lazy", name], check=True)


def plugin_job(rig: ServerRig) -> dict[str, Any]:
    [driver] = {"docker", "podman"} & set(rig.agent.config.drivers)
    data = rig.data_dir / "plugin"
    data.mkdir()
    image = docker_engine.IMAGE if driver == "docker" else podman_engine.IMAGE
    task = {
        "Name": "plugin",
        "Driver": driver,
        "Config": {
            **{"image": image, "cap_add": ["sys_admin"], "network_mode": "host"},
            "command": sys.executable,
            "args": ["-m", "tests.support.csi_plugin", str(data), "csi-node-1", "mounts"],
            "volumes": [f"{data}:{data}", *(f"{each}:{each}:ro" for each in dict.fromkeys(HOST))],
        },
        "Env": {"PYTHONPATH": ROOT, "PATH": "/usr/bin:/usr/sbin:/bin"},
        "CSIPluginConfig": {"ID": "test", "Type": "monolith"},
        "KillTimeout": 10**8,
    }
    group = {"Name": "g", "Tasks": [task]}
    return {"ID": "plugin", "Name": "plugin", "Type": "service", "TaskGroups": [group]}


def healthy(found: list[dict[str, Any]]) -> bool:
    return bool(found) and found[0]["NodesHealthy"] == 1


def mounted_volumes(rig: ServerRig) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if " volume-ext-" in line and str(rig.data_dir) in line]


def test_mounts_of_a_plugin_in_a_container_serve_tasks_and_outlive_it(rig: ServerRig) -> None:
    rig.register(plugin_job(rig))
    rig.wait_for("/v1/plugins", healthy)
    create(rig, "data").raise_for_status()
    script = "echo one > data/file; while [ ! -e data/end ]; do sleep 0.05; done"
    rig.register(user_job("user", "data", script))
    staging = rig.data_dir / "agent/csi" / STAGING / "default/data"
    until_blocking((staging / "file").exists, 120)
    assert staging.is_mount()
    assert len(mounted_volumes(rig)) == 2
    [allocation] = rig.http.get("/v1/job/plugin/allocations").json()
    restart = f"/v1/client/allocation/{allocation['ID']}/restart"
    rig.http.put(restart, json={}).raise_for_status()
    calls = rig.data_dir / "plugin/calls"
    until_blocking(lambda: calls.read_text().count("NodeGetInfo") > 1, 120)
    assert (staging / "file").read_text() == "one\n"
    (staging / "end").touch()
    rig.wait_for("/v1/volume/csi/data", claims_gone)
    until_blocking(lambda: mounted_volumes(rig) == [], 120)
    assert not staging.exists()


def test_plugin_in_a_container_sees_devices_that_come_later(rig: ServerRig) -> None:
    rig.register(plugin_job(rig))
    rig.wait_for("/v1/plugins", healthy)
    [allocation] = rig.http.get("/v1/job/plugin/allocations").json()
    with tempfile.NamedTemporaryFile(dir="/dev", prefix="orchgit-test-") as device:
        answer = rig.run(
            rig.agent.allocations.get(allocation["ID"])
            .tasks["plugin"]
            .run_command(["ls", device.name], 60)
        )
    assert (answer.exit_code, answer.output.decode().strip()) == (0, device.name)
