"""Three servers' replicated states as processes on loop-back, to be killed and started again."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from orchgit.wire.tls import TlsFiles
from tests.support.polling import until
from tests.support.ports import free_addresses

_NUMBERS = itertools.count(1)


class RefusedByMember(Exception):
    """A member answered with an error."""


class MemberProcess:
    def __init__(
        self,
        directory: Path,
        bind: str,
        peers: str,
        tls: TlsFiles | None,
        time_scale: float = 1.0,
    ) -> None:
        self.bind = bind
        self._environment = {**os.environ, "TIME_SCALE": str(time_scale)}
        self.arguments = [str(directory), bind, peers]
        self.arguments += [str(one) for one in (tls.ca, tls.cert, tls.key)] if tls else []
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.raft_member", *self.arguments),
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=16 << 20,
        )
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            answer = json.loads(line)
            self._answers.pop(answer["n"]).set_result(answer)
        for answer in self._answers.values():
            answer.set_exception(RefusedByMember("it is dead"))
        self._answers.clear()

    async def ask(self, word: str, argument: str = "") -> Any:
        number = next(_NUMBERS)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if self._reading.done():
            raise RefusedByMember("it is dead")
        self._answers[number] = future
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number} {word} {argument}\n".encode())
        answer = await future
        if "error" in answer:
            raise RefusedByMember(answer["error"])
        return answer["ok"]

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.process.wait()
        await self._reading

    async def stop(self) -> int:
        if self.process.returncode is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
        code = await self.process.wait()
        await self._reading
        return code


class ProcessCluster:
    def __init__(self, members: list[MemberProcess]) -> None:
        self.members = {one.bind: one for one in members}

    async def leader(self, among: set[str] | None = None) -> MemberProcess:
        """Wait until exactly one of them says that it leads, and the others agree."""

        async def agreed() -> MemberProcess | None:
            names = among or set(self.members)
            said = await asyncio.gather(*(self.members[name].ask("status") for name in names))
            leaders = {one["leader"] for one in said}
            leading = [name for name, one in zip(names, said, strict=True) if one["leads"]]
            agree = len(leading) == 1 and leaders == set(leading)
            return self.members[leading[0]] if agree else None

        found = await until(agreed)
        assert found is not None
        return found


@asynccontextmanager
async def process_cluster(
    directory: Path, tls: TlsFiles | None = None, time_scale: float = 1.0
) -> AsyncIterator[ProcessCluster]:
    """`time_scale` multiplies the time after which members stand for election."""
    addresses = free_addresses(3)
    members = [
        MemberProcess(
            directory / f"m{i}", one, ",".join(p for p in addresses if p != one), tls, time_scale
        )
        for i, one in enumerate(addresses)
    ]
    async with _running(members) as cluster:
        yield cluster


@asynccontextmanager
async def growing_cluster(directory: Path, count: int) -> AsyncIterator[ProcessCluster]:
    """The first is a cluster of its own, the others wait to be taken in."""
    members = [
        MemberProcess(directory / f"m{i}", one, "waiting" if i else "alone", None)
        for i, one in enumerate(free_addresses(count))
    ]
    async with _running(members) as cluster:
        yield cluster


@asynccontextmanager
async def _running(members: list[MemberProcess]) -> AsyncIterator[ProcessCluster]:
    await asyncio.gather(*(one.start() for one in members))
    try:
        yield ProcessCluster(members)
    finally:
        for one in members:
            one.signal(signal.SIGCONT) if one.process.returncode is None else None
        await asyncio.gather(*(one.stop() for one in members))
