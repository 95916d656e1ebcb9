"""Fills an empty `orchgit dev` cluster: a volume, and a repository with the examples."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import orchgit
from orchgit.child import DEVNULL, PIPE, start_child
from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.client.tls_client import TlsClient

SOURCE = "demo"
VOLUME = "demo-data"

_AUTHOR = ("-c", "user.name=orchgit", "-c", "user.email=orchgit@localhost")


def examples_directory() -> Path:
    """Returns `examples/jobs` of the source tree, or its copy in an installed package."""
    package = Path(orchgit.__file__).parent
    for candidate in (package / "examples/jobs", package.parent / "examples/jobs"):
        if candidate.is_dir():
            return candidate
    raise ApiError("cannot seed the demo repository: examples/jobs is not installed")


async def seed(url: str, node_id: str, tls: TlsClient) -> bool:
    """Makes the volume and pushes the examples; returns False if that was done before."""
    if not await asyncio.to_thread(_prepare, url, node_id, tls):
        return False
    await _push_examples(url, tls)
    return True


def _prepare(url: str, node_id: str, tls: TlsClient) -> bool:
    """Makes what the push needs; returns False if it was made before."""
    with ApiClient(url, tls=tls) as client:
        known = client.get("/v1/gitops/sources")
        source = next((each for each in known if each["Name"] == SOURCE), None)
        if source and source["Status"]["AppliedCommit"]:
            return False
        volumes = client.get("/v1/volumes", type="host")
        if not any(each["Name"] == VOLUME for each in volumes):
            volume = {"Name": VOLUME, "NodeID": node_id, "PluginID": "mkdir"}
            client.put("/v1/volume/host/create", {"Volume": volume})
        if not source:
            client.put(f"/v1/gitops/source/{SOURCE}", {"Name": SOURCE, "Kind": "builtin"})
    return True


async def _push_examples(url: str, tls: TlsClient) -> None:
    with tempfile.TemporaryDirectory(prefix="orchgit-demo-") as directory:
        for example in sorted(examples_directory().glob("*.hcl")):
            shutil.copy(example, directory)
        await _git(directory, "init", "-q", "-b", "main")
        await _git(directory, "add", "-A")
        await _git(directory, *_AUTHOR, "commit", "-q", "-m", "The examples of orchgit")
        remote = f"{url}/git/{SOURCE}.git"
        await _git(directory, "push", "-q", "-o", "detach", remote, "main", tls=tls)


async def _git(directory: str, *arguments: str, tls: TlsClient | None = None) -> None:
    secure = dict(line.split("=", 1) for line in tls.git_settings()) if tls else {}
    process = await start_child(
        "git",
        *arguments,
        cwd=directory,
        stdout=DEVNULL,
        stderr=PIPE,
        env={**os.environ, **secure, "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"},
    )
    assert process.stderr is not None
    errors = await process.stderr.read()
    if await process.wait():
        raise ApiError(
            f"cannot seed the demo repository: git {arguments[0]}: "
            f"{errors.decode(errors='replace').strip()}"
        )
