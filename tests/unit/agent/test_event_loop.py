"""The agent's event loop never does work whose size a job decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.call_graph import CallGraph, read_call_graph

_ROOT = Path(__file__).parents[3]
_UNBOUNDED = {
    *("shutil.rmtree", "shutil.copytree", "shutil.copyfileobj", "shutil.copyfile", "shutil.move"),
    *("os.walk", "os.fwalk", "os.scandir", "os.listdir", "tarfile.open", "zipfile.ZipFile"),
    *("subprocess.run", "subprocess.check_output", "time.sleep", "hashlib.file_digest"),
    "ssl.create_default_context",
}
_UNBOUNDED_METHODS = (".rglob", ".glob", ".iterdir")
_BOUNDED = {
    "agent.csi.mount_records.MountRecords.all": "a record per mounted volume",
    "agent.csi.mount_records.MountRecords.of_allocation": "a record per mounted volume",
    "agent.drivers.conformance.log_text": "a test",
    "agent.drivers.docker.engine.Engine.create": "a volume is created, not a container",
    "agent.drivers.docker.image_garbage.ImageGarbage.resume": "an empty file for each image",
    "agent.drivers.docker.pause.pause_image_archive": "one program of the agent",
    "agent.drivers.exec.ExecDriver._write_process": "at most 64 commands of a task",
    "agent.networks.cni.configuration.load": "the node's own configuration",
    "agent.networks.records.NetworkRecords.__init__": "before the agent does anything else",
    "agent.node.volume_plugins.VolumePlugins.find": "the node's own plugins",
}
"""Functions that are called on the loop all the same, and why they may be."""


def slow_chains(graph: CallGraph) -> list[tuple[str, ...]]:
    methods = {
        written
        for calls in graph.calls.values()
        for _, written in calls
        if written.endswith(_UNBOUNDED_METHODS)
    }
    return list(graph.paths_on_the_loop(_UNBOUNDED | methods))


def test_no_coroutine_of_the_agent_walks_copies_or_removes_trees_itself() -> None:
    chains = slow_chains(read_call_graph(_ROOT, "agent"))
    found = {" -> ".join(chain) for chain in chains if chain[-2] not in _BOUNDED}
    assert not found, "hand these to asyncio.to_thread"
    assert set(_BOUNDED) <= {chain[-2] for chain in chains}, "entries that are not needed"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("async def a():\n    shutil.rmtree(p)\n", True),
        ("async def a():\n    await asyncio.to_thread(shutil.rmtree, p)\n", False),
        ("async def a():\n    b()\ndef b():\n    c()\ndef c():\n    os.listdir(p)\n", True),
        ("async def a():\n    await asyncio.to_thread(b)\ndef b():\n    os.listdir(p)\n", False),
        (
            "class A:\n    async def a(self):\n        self.b()\n"
            "    def b(self):\n        p.glob('*')\n",
            True,
        ),
        ("class A:\n    def b(self):\n        p.glob('*')\nasync def a(x):\n    x.b()\n", True),
        ("def b():\n    os.walk(p)\n", False),
    ],
)
def test_slow_call_is_found_through_functions_and_methods(
    tmp_path: Path, source: str, expected: bool
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/mod.py").write_text(f"import asyncio, os, shutil\n{source}")
    assert bool(slow_chains(read_call_graph(tmp_path, "pkg"))) == expected
