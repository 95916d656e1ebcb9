"""A server's mirror as a process to be killed: fetches one object of `demo` from a peer.

python -m tests.support.mirror_fetcher DIRECTORY ADDRESS OBJECT_ID
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from orchgit import logs
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.mirror import MirrorStore
from orchgit.gitops.mirrors.packs import known_to, take_pack
from orchgit.gitops.mirrors.peers import PeerClient


async def fetch(
    directory: Path, address: str, object_id: str, limits: GitLimits | None = None
) -> None:
    limits = limits or GitLimits()
    git = GitProcess(directory, limits)
    git.prepare()
    mirror = MirrorStore(directory, limits).get("demo")
    calls = PeerClient()
    try:
        frames = calls.fetch_pack(address, "demo", [object_id], known_to(mirror))
        await take_pack(git, mirror, address, [object_id], frames)
    finally:
        await calls.close()


if __name__ == "__main__":
    logs.configure(logs.LogSettings("WARNING"))
    asyncio.run(fetch(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
