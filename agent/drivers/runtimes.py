"""Finds the container runtime that works on this node, by running `true` with it.

crun is preferred, being the faster; it refuses some kernels' mixtures of control group versions
with which runc works.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import msgspec

from agent.drivers.base import TaskConfig, TaskDir
from agent.drivers.oci import Isolation, Runtime, bundle_config
from agent.drivers.users import UserIds
from orchgit.child import DEVNULL, PIPE, start_child

_RUNTIMES = ("crun", "runc")
_PROBE_TIMEOUT_S = 10.0
_PROBE_ID = "orchgit-probe"


class RuntimeProbe(msgspec.Struct, frozen=True):
    """The runtime found ("" if none), or why each one there cannot be used."""

    path: str = ""
    problems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return Path(self.path).name


async def find_runtime(cgroups_path: str, rootless: bool = False) -> RuntimeProbe:
    """The first runtime on PATH that runs a container."""
    problems = []
    for name in _RUNTIMES:
        path = shutil.which(name)
        if path is None:
            continue
        problem = await _problem_with(path, f"{cgroups_path}-{name}", rootless)
        if not problem:
            return RuntimeProbe(path)
        problems.append(f"{name}: {problem}")
    return RuntimeProbe(problems=tuple(problems) or ("neither crun nor runc is on PATH",))


def runtime_command(path: str, state: str, rootless: bool) -> list[str]:
    """The runtime, with its state in a directory."""
    without_groups = ["--cgroup-manager=disabled"] if rootless and "crun" in path else []
    return [path, *without_groups, "--root", state]


async def _problem_with(path: str, cgroups_path: str, rootless: bool) -> str:
    with tempfile.TemporaryDirectory(prefix="orchgit-probe-") as directory:
        bundle = _probe_bundle(Path(directory), cgroups_path, rootless)
        base = runtime_command(path, f"{directory}/state", rootless)
        command = [*base, "run", "--bundle", str(bundle), _PROBE_ID]
        process = await start_child(
            *command,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                assert process.stderr is not None
                errors = await process.stderr.read()
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            process.close()
            return f"a container did not end within {_PROBE_TIMEOUT_S:.0f} s"
    if process.returncode == 0:
        return ""
    return errors.decode("utf-8", "replace").strip() or f"exit status {process.returncode}"


def _probe_bundle(directory: Path, cgroups_path: str, rootless: bool) -> Path:
    root = directory / "root"
    for name in ("alloc", "local", "secrets", "tmp"):
        (root / name).mkdir(parents=True)
    paths = TaskDir(
        alloc_dir=str(root / "alloc"),
        task_dir=str(root),
        local_dir=str(root / "local"),
        secrets_dir=str(root / "secrets"),
        log_dir=str(root / "alloc"),
    )
    task = TaskConfig(alloc_id=_PROBE_ID, task_name="probe", attempt=0, task_dir=paths)
    config = bundle_config(
        task,
        Isolation(command="/bin/true"),
        UserIds(0, 0, []),
        Runtime(cgroups_path=cgroups_path, resources={}, rootless=rootless),
    )
    (directory / "config.json").write_bytes(msgspec.json.encode(config))
    return directory
