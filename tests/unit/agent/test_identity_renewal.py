"""Tokens of a running task that expire: signed anew in time, and again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.hooks.base import TaskSetup
from agent.identities.renewal import keep_current
from agent.identities.task_identities import TaskIdentities
from orchgit.clock import SECOND_NS, FakeClock
from orchgit.errors import DriverError, UnavailableError
from orchgit.model.allocation import TaskEvent
from orchgit.model.workload_identity import SignedIdentity, WantedIdentity
from tests.unit.agent.test_hooks import new_setup

HOUR = 3600 * SECOND_NS


class Servers:
    """Signs a numbered token each time, unless `broken`."""

    def __init__(self) -> None:
        self.signed = 0
        self.expires_ns = 0
        self.broken = False

    async def sign(self, wanted: Sequence[WantedIdentity]) -> list[SignedIdentity]:
        if self.broken:
            raise UnavailableError("no server is connected")
        self.signed += 1
        return [
            SignedIdentity(f"{each.identity}-{self.signed}", self.expires_ns) for each in wanted
        ]


class Rig:
    """A running task, which cannot be signaled."""

    def __init__(self, path: Path, *identities: dict[str, Any]) -> None:
        self.servers, self.clock = Servers(), FakeClock()
        self._setup = new_setup(path, identities=list(identities))
        self._setup.clock = self.clock
        self.identities = TaskIdentities("alloc", "web", self.servers.sign, self.clock)
        self._setup.identities = self.identities
        self.file = self._setup.paths.task_dir / "secrets" / "nomad_ci.jwt"
        self.told: list[str] = []

    def setup(self) -> TaskSetup:
        return self._setup

    def restart(self, because: TaskEvent) -> None:
        self.told.append(because.type)

    async def signal(self, signal: str, reason: str) -> None:
        self.told.append(signal)
        raise DriverError("cannot signal the task")

    def keep(self, at_once: bool = False) -> asyncio.Task[None]:
        return asyncio.create_task(keep_current(self, at_once))


def test_token_is_renewed_at_half_of_its_time_for_as_long_as_the_task_runs(tmp_path: Path) -> None:
    told = {"ChangeMode": "signal", "ChangeSignal": "SIGHUP"}
    rig = Rig(tmp_path, {"Name": "ci", "File": True, "TTL": HOUR, **told})

    async def run() -> None:
        work = rig.keep()
        await rig.clock.advance(1799)
        assert not rig.file.exists()
        await rig.clock.advance(1)
        assert rig.file.read_text() == "ci-1"
        await rig.clock.advance(1800)
        assert rig.file.read_text() == "ci-2"
        assert rig.told == ["SIGHUP", "SIGHUP"]
        work.cancel()

    asyncio.run(run())


def test_token_of_unknown_age_is_renewed_at_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"Name": "ci", "File": True, "TTL": HOUR, "ChangeMode": "restart"})

    async def run() -> None:
        work = rig.keep(at_once=True)
        await rig.clock.advance(0)
        assert rig.file.read_text() == "ci-1"
        assert rig.told == ["Restart Signaled"]
        work.cancel()

    asyncio.run(run())


def test_renewal_goes_on_when_a_server_answers_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"Name": "ci", "File": True, "TTL": HOUR})

    async def run() -> None:
        rig.servers.broken = True
        work = rig.keep()
        await rig.clock.advance(1810)
        assert not rig.file.exists()
        rig.servers.broken = False
        await rig.clock.advance(15)
        assert rig.file.read_text() == "ci-1"
        work.cancel()

    asyncio.run(run())


def test_task_without_an_expiring_token_needs_no_renewal(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"Name": "ci", "File": True}, {"Name": "idle", "TTL": HOUR})

    async def run() -> None:
        await rig.keep()
        assert rig.servers.signed == 0

    asyncio.run(run())


def test_token_is_signed_once_and_again_when_half_of_its_time_is_over(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.servers.expires_ns = rig.clock.now_ns() + HOUR

    async def run() -> None:
        assert [await rig.identities.token(), await rig.identities.token()] == ["default-1"] * 2
        await rig.clock.advance(1801)
        assert await rig.identities.token() == "default-2"

    asyncio.run(run())


def test_reader_of_a_token_hears_of_its_renewal(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def run() -> None:
        token = await rig.identities.token()
        waiting = asyncio.create_task(rig.identities.renewed(token))
        await rig.clock.advance(0)
        assert not waiting.done()
        await rig.identities.renew(["default"])
        assert await waiting == "default-2"

    asyncio.run(run())
