"""Data of an allocation moves to its replacement on another node: `migrate = true`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from orchgit.cli.commands.dev import end_tasks
from orchgit.services.acl.settings import AclSettings
from orchgit.wire.relay_proof import HEADER, proof
from tests.support.server_rig import ServerRig, server_rig

WRITE = """
mkdir -p alloc/data/deep t/local/empty
echo kept > alloc/data/deep/file; chmod 640 alloc/data/deep/file
ln -s /etc/hostname alloc/data/link; echo mine > t/local/own; echo no > alloc/tmp/no; sleep 1000
"""


@pytest.fixture
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerRig]:
    """A server with an agent, and a second agent beside it; with access control where asked for."""
    with_access = bool(getattr(request, "param", False))
    with server_rig(tmp_path, acl=AclSettings(enabled=with_access)) as rig:
        if with_access:
            token = rig.http.post("/v1/acl/bootstrap").json()["SecretID"]
            rig.http.headers["X-Nomad-Token"] = token
        rig.wait_ready_node()
        config = replace(
            rig.agent.config, data_dir=tmp_path / "second", node_name="second", http_addr=""
        )
        second = Agent(config)
        rig.run(second.start())
        rig.wait_for("/v1/nodes", lambda nodes: len(nodes) == 2)
        yield rig
        rig.run(second.stop())
        rig.run(end_tasks(tmp_path / "second"))


def job(node: str, script: str) -> dict[str, Any]:
    task = {
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", f"cd $NOMAD_TASK_DIR/../..; {script}"]},
        "KillTimeout": 10**8,
        "KillSignal": "SIGKILL",
    }
    group = {
        "Name": "g",
        "EphemeralDisk": {"Sticky": True, "Migrate": True, "SizeMB": 150},
        "Constraints": [{"LTarget": "${node.unique.name}", "RTarget": node, "Operand": "="}],
        "Tasks": [task],
    }
    return {"ID": "moves", "Name": "moves", "Type": "service", "TaskGroups": [group]}


def running_on(rig: ServerRig, root: Path, written: str) -> Path:
    """Returns the directory of the newest allocation, when its task runs and has written."""

    def ready(allocs: list[dict[str, Any]]) -> bool:
        newest = max(allocs, key=lambda each: each["CreateIndex"], default=None)
        if newest is None or newest["ClientStatus"] != "running":
            return False
        return (root / "alloc" / newest["ID"] / written).exists()

    allocs = rig.wait_for("/v1/job/moves/allocations", ready)
    return root / "alloc" / str(max(allocs, key=lambda each: each["CreateIndex"])["ID"])


@pytest.mark.parametrize("rig", [False, True], ids=["open", "access-control"], indirect=True)
def test_data_is_streamed_from_the_old_node(rig: ServerRig, tmp_path: Path) -> None:
    rig.register(job("rig", WRITE))
    running_on(rig, tmp_path / "agent", "alloc/tmp/no")
    rig.register(job("second", "touch alloc/data/started; sleep 1000"))
    root = running_on(rig, tmp_path / "second", "alloc/data/started")
    moved = root / "alloc" / "data" / "deep" / "file"
    assert moved.read_text() == "kept\n"
    assert moved.stat().st_mode & 0o777 == 0o640
    assert (root / "alloc" / "data" / "link").readlink() == Path("/etc/hostname")
    assert (root / "t" / "local" / "own").read_text() == "mine\n"
    assert (root / "t" / "local" / "empty").is_dir()
    assert not (root / "alloc" / "tmp" / "no").exists()
    assert not (root / ".arriving").exists()
    events = rig.http.get(f"/v1/allocation/{root.name}").json()["TaskStates"]["t"]["Events"]
    assert any("Moved 10 bytes of data" in each["DisplayMessage"] for each in events)


@pytest.mark.parametrize("rig", [True], ids=["access-control"], indirect=True)
def test_snapshot_needs_a_servers_proof(rig: ServerRig, tmp_path: Path) -> None:
    rig.register(job("rig", WRITE))
    root = running_on(rig, tmp_path / "agent", "alloc/tmp/no")
    path = f"/v1/client/allocation/{root.name}/snapshot"
    forged = rig.http.get(path, headers={"x-orchgit-checked": "1.abc"})
    assert (forged.status_code, forged.text) == (403, "Permission denied")
    context = rig.server.services.context
    with context.snapshot() as snapshot:
        secret = snapshot.nodes.get(rig.agent.node_id).secret_id
    value = proof(secret, "GET", path, b"", context.now_ns())
    early = rig.http.get(path, headers={HEADER.decode(): value.decode()})
    assert (early.status_code, "it still runs" in early.text) == (500, True)
    answer = rig.http.get(path)
    assert (answer.status_code, answer.text) == (403, "Permission denied")


def test_data_behind_a_link_is_not_moved(rig: ServerRig, tmp_path: Path) -> None:
    rig.register(job("rig", WRITE))
    old = running_on(rig, tmp_path / "agent", "alloc/tmp/no")
    (old / "alloc" / "data").rename(tmp_path / "elsewhere")
    (old / "alloc" / "data").symlink_to(tmp_path / "elsewhere")
    rig.register(job("second", "touch alloc/data/started; sleep 1000"))
    root = running_on(rig, tmp_path / "second", "alloc/data/started")
    assert sorted(path.name for path in (root / "alloc" / "data").iterdir()) == ["started"]
