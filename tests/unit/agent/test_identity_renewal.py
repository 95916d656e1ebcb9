"""Tokens of a running task that expire: signed anew in time, and again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.hooks.base import HookResults, TaskSetup
from agent.hooks.identities import prepare
from agent.hooks.resume import resume
from agent.identities.renewal import keep_current
from agent.identities.task_identities import TaskIdentities
from agent.local_state.store import HeldToken
from orchgit.clock import SECOND_NS, Clock, FakeClock
from orchgit.errors import DriverError, UnavailableError
from orchgit.model.allocation import TaskEvent
from orchgit.model.workload_identity import SignedIdentity, WantedIdentity
from tests.unit.agent.test_hooks import new_setup

HOUR = 3600 * SECOND_NS


class Servers:
    """Signs a numbered token each time, unless `broken`: it lives for `ttls_ns` of its identity,
    else without an end."""

    def __init__(self, clock: Clock) -> None:
        self.signed = 0
        self.ttls_ns: dict[str, int] = {}
        self.broken = False
        self._clock = clock

    def _expires_ns(self, identity: str) -> int:
        ttl_ns = self.ttls_ns.get(identity, 0)
        return self._clock.now_ns() + ttl_ns if ttl_ns else 0

    async def sign(self, wanted: Sequence[WantedIdentity]) -> list[SignedIdentity]:
        if self.broken:
            raise UnavailableError("no server is connected")
        self.signed += 1
        return [
            SignedIdentity(f"{each.identity}-{self.signed}", self._expires_ns(each.identity))
            for each in wanted
        ]


class Rig:
    """A running task, which cannot be signaled."""

    def __init__(self, path: Path, *identities: dict[str, Any]) -> None:
        self.clock = FakeClock()
        self.servers = Servers(self.clock)
        self.servers.ttls_ns = {each["Name"]: each.get("TTL", 0) for each in identities}
        self._setup = new_setup(path, identities=list(identities))
        self._setup.clock = self.clock
        self.held: dict[str, HeldToken] = {}
        self.restart_agent()
        self.file = self._setup.paths.task_dir / "secrets" / "nomad_ci.jwt"
        self.told: list[str] = []

    def restart_agent(self) -> None:
        """The next agent knows what this one stored."""

        def hold(tokens: dict[str, HeldToken]) -> None:
            self.held = tokens

        self.identities = TaskIdentities(
            "alloc", "web", self.servers.sign, self.clock, self.held, hold
        )
        self._setup.identities = self.identities
        self._setup.results = HookResults()

    def setup(self) -> TaskSetup:
        return self._setup

    def restart(self, because: TaskEvent) -> None:
        self.told.append(because.type)

    async def signal(self, signal: str, reason: str) -> None:
        self.told.append(signal)
        raise DriverError("cannot signal the task")

    async def start(self) -> asyncio.Task[None]:
        """Gives the task its tokens, and begins to keep them current."""
        await prepare(self._setup)
        return self.keep()

    def keep(self) -> asyncio.Task[None]:
        return asyncio.create_task(keep_current(self))


def test_token_is_renewed_at_half_of_its_time_for_as_long_as_the_task_runs(tmp_path: Path) -> None:
    told = {"ChangeMode": "signal", "ChangeSignal": "SIGHUP"}
    rig = Rig(tmp_path, {"Name": "ci", "File": True, "TTL": HOUR, **told})

    async def run() -> None:
        work = await rig.start()
        await rig.clock.advance(1799)
        assert rig.file.read_text() == "ci-1"
        await rig.clock.advance(1)
        assert rig.file.read_text() == "ci-2"
        await rig.clock.advance(1800)
        assert rig.file.read_text() == "ci-3"
        assert rig.told == ["SIGHUP", "SIGHUP"]
        work.cancel()

    asyncio.run(run())


def test_each_token_is_renewed_in_its_own_time(tmp_path: Path) -> None:
    short = {"Name": "ci", "Env": True, "TTL": HOUR, "ChangeMode": "restart"}
    long = {"Name": "db", "Env": True, "TTL": 3 * HOUR, "ChangeMode": "restart"}
    rig = Rig(tmp_path, short, long)

    async def run() -> None:
        work = await rig.start()
        await rig.clock.advance(1800)
        env = rig.setup().environment().env
        assert (env["NOMAD_TOKEN_ci"], env["NOMAD_TOKEN_db"]) == ("ci-2", "db-1")
        assert rig.told == ["Restart Signaled"]
        work.cancel()

    asyncio.run(run())


def test_good_token_is_left_alone_by_the_next_agent_until_half_of_its_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"Name": "ci", "Env": True, "TTL": HOUR, "ChangeMode": "restart"})

    async def run() -> None:
        (await rig.start()).cancel()
        await rig.clock.advance(600)
        rig.restart_agent()
        work = rig.keep()
        await rig.clock.advance(1199)
        assert (rig.servers.signed, rig.told) == (1, [])
        await rig.clock.advance(1)
        assert (rig.servers.signed, rig.told) == (2, ["Restart Signaled"])
        work.cancel()

    asyncio.run(run())


def test_token_whose_time_came_while_the_agent_was_away_is_renewed_at_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"Name": "ci", "File": True, "TTL": HOUR, "ChangeMode": "restart"})

    async def run() -> None:
        (await rig.start()).cancel()
        await rig.clock.advance(7200)
        rig.restart_agent()
        work = rig.keep()
        await rig.clock.advance(0)
        assert rig.file.read_text() == "ci-2"
        assert rig.told == ["Restart Signaled"]
        work.cancel()

    asyncio.run(run())


def test_next_agent_knows_the_variables_of_a_running_task(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"Name": "ci", "Env": True}, {"Name": "file", "File": True})

    async def run() -> None:
        await prepare(rig.setup())
        rig.restart_agent()
        assert "NOMAD_TOKEN_ci" not in rig.setup().environment().env
        await resume(rig.setup())
        env = rig.setup().environment().env
        assert (env["NOMAD_TOKEN_ci"], "NOMAD_TOKEN_file" in env) == ("ci-1", False)
        assert rig.servers.signed == 1

    asyncio.run(run())


def test_token_of_unknown_age_is_renewed_at_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"Name": "ci", "File": True, "TTL": HOUR, "ChangeMode": "restart"})

    async def run() -> None:
        work = rig.keep()
        await rig.clock.advance(0)
        assert rig.file.read_text() == "ci-1"
        assert rig.told == ["Restart Signaled"]
        work.cancel()

    asyncio.run(run())


def test_new_token_that_has_ended_by_the_nodes_clock_rests_for_a_quarter_of_its_time(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, {"Name": "ci", "File": True, "TTL": HOUR, "ChangeMode": "restart"})
    rig.servers.ttls_ns = {"ci": -HOUR}

    async def run() -> None:
        work = await rig.start()
        await rig.clock.advance(899)
        assert rig.file.read_text() == "ci-2"
        await rig.clock.advance(1)
        assert rig.file.read_text() == "ci-3"
        assert rig.told == ["Restart Signaled"] * 2
        work.cancel()

    asyncio.run(run())


def test_renewal_goes_on_when_a_server_answers_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"Name": "ci", "File": True, "TTL": HOUR})

    async def run() -> None:
        work = await rig.start()
        rig.servers.broken = True
        await rig.clock.advance(1810)
        assert rig.file.read_text() == "ci-1"
        rig.servers.broken = False
        await rig.clock.advance(15)
        assert rig.file.read_text() == "ci-2"
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
    rig.servers.ttls_ns = {"default": HOUR}

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
