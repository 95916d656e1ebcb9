"""A person who pushes commits to a source of the cluster, to whichever server answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import shutil
from pathlib import Path
from typing import Protocol

from tests.support.dev_server import git_environment
from tests.support.history import History
from tests.support.job_texts import sleeper
from tests.support.pacing import pause
from tests.support.real_cluster import HostProcess, RealCluster, until

SOURCE = "work"
_PUSH_S = 20.0


class Hub(Protocol):
    """A place from which every server can be reached."""

    def address(self, host: str) -> str: ...

    def command_at_hub(self, *arguments: str) -> list[str]: ...


class Pusher:
    """Each commit changes one job file; what a server took is in the history's `commits`."""

    def __init__(self, cluster: RealCluster, hub: Hub, directory: Path, history: History) -> None:
        self._cluster = cluster
        self._hub = hub
        self._directory = directory
        self._clone = directory / "clone"
        self._history = history
        self._chance = random.Random(len(hub.address("s1")))
        self._numbers = itertools.count(1)

    async def prepare(self) -> None:
        """The source is stored, and there is a repository to push from."""
        leader = await self._cluster.leader()
        answer = await leader.ask("PUT", f"/v1/gitops/source/{SOURCE}", b'{"Kind":"builtin"}')
        assert answer.status == 200, answer.text
        self._clone.mkdir(parents=True)
        await self._git("init", "--quiet")

    async def run(self) -> None:
        while True:
            await self.push()
            await pause(0.1, "the time between pushes")

    async def push(self) -> bool:
        """A new commit, on top of those that were not taken."""
        text = sleeper("pushed", count=0, version=str(next(self._numbers)))
        (self._clone / "job.nomad.hcl").write_text(text)
        await self._git("add", "-A")
        await self._git("commit", "--quiet", "-m", "Another version")
        server = self._chance.choice(list(self._cluster.servers.values()))
        code, _ = await self._run("push", "-q", "-o", "detach", _url(server), "HEAD:main")
        if code == 0:
            self._history.commits.append(await self._git("rev-parse", "HEAD"))
        return code == 0

    async def check(self, servers: list[HostProcess]) -> None:
        """Each of these servers can soon be cloned from, and has what was acknowledged."""

        heads: dict[str, str] = {}

        async def same() -> str | None:
            for server in servers:
                heads[server.host] = await self._cloned_head(server)
            found = set(heads.values())
            return found.pop() if len(found) == 1 else None

        try:
            head = await until(same, 120, "the repositories do not become the same")
        except AssertionError as error:
            raise AssertionError(f"{error}; they are {heads}") from None
        for commit in self._history.commits:
            code, _ = await self._run("merge-base", "--is-ancestor", commit, head)
            assert code == 0, f"the acknowledged commit {commit} is not in {head}"

    async def _cloned_head(self, server: HostProcess) -> str:
        """Or why it cannot be cloned from."""
        clone = self._directory / f"of-{server.host}"
        try:
            code, text = await self._run("clone", "-q", "-b", "main", _url(server), str(clone))
            return await self._git("rev-parse", "HEAD", cwd=clone) if code == 0 else text
        finally:
            shutil.rmtree(clone, ignore_errors=True)

    async def _git(self, *arguments: str, cwd: Path | None = None) -> str:
        code, text = await self._run(*arguments, cwd=cwd)
        assert code == 0, text
        return text.strip()

    async def _run(self, *arguments: str, cwd: Path | None = None) -> tuple[int, str]:
        """Exit code and output; one that takes too long counts as failed."""
        process = await asyncio.create_subprocess_exec(
            *self._hub.command_at_hub("git", "-c", "init.defaultBranch=main", *arguments),
            cwd=cwd or self._clone,
            env=git_environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(_PUSH_S):
                out, _ = await process.communicate()
        except TimeoutError:
            out = b"it took too long"
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return process.returncode or 0, out.decode(errors="replace")


def _url(server: HostProcess) -> str:
    host, port = server.http
    return f"http://{host}:{port}/git/{SOURCE}.git"
