"""The token of Vault of a running task is renewed at half of its lease, whatever happens."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from agent.hooks.base import TaskSetup
from agent.hooks.vault import prepare, vault_access
from agent.http_json import HttpService
from agent.identities.task_identities import TaskIdentities
from agent.templates.cluster_reads import ClusterReads, OutsideValue, Reader
from agent.templates.queries import Query, QueryKind
from agent.templates.task_templates import TaskTemplates
from agent.vault.renewal import keep_token
from agent.vault.tokens import Vault, VaultConfig, VaultToken
from orchgit.errors import NotAllowedError, RefusedError
from orchgit.model.allocation import TaskEvent
from tests.unit.agent.test_hooks import new_setup
from tests.unit.agent.test_identity_renewal import Servers

LEASE_S = 3600


class NumberedVault(Vault):
    """Grants `hvs.1`, `hvs.2` ...; it answers nothing while `broken`, and renews none that is
    `revoked`."""

    def __init__(self) -> None:
        super().__init__(VaultConfig(service=HttpService(url="http://127.0.0.1:1", timeout_s=60)))
        self.logins = self.renewals = 0
        self.broken = self.revoked = False

    async def log_in(self, identity: str, role: str, namespace: str) -> VaultToken:
        self.logins += 1
        return VaultToken(f"hvs.{self.logins}", LEASE_S, renewable=True)

    async def renew(self, token: str, namespace: str) -> VaultToken:
        if self.broken:
            raise RefusedError("Vault is sealed")
        if self.revoked:
            raise NotAllowedError("permission denied")
        self.renewals += 1
        return VaultToken(token, LEASE_S, renewable=True)


class Rig:
    """A running task with a `vault` block."""

    def __init__(self, path: Path) -> None:
        vault = {"ChangeMode": "restart"}
        identity = {"Name": "vault_default", "Audience": ["vault.io"]}
        self._setup = new_setup(path, vault=vault, identities=[identity])
        self.clock = self._setup.clock
        self._setup.vault = self.vault = NumberedVault()
        self._setup.identities = TaskIdentities(
            "alloc", "web", Servers(self.clock).sign, self.clock
        )
        self.file = self._setup.paths.task_dir / "secrets" / "vault_token"
        self.restarts = 0

    def setup(self) -> TaskSetup:
        return self._setup

    def restart(self, because: TaskEvent) -> None:
        self.restarts += 1

    async def signal(self, signal: str, reason: str) -> None:
        raise AssertionError("the job asks for a restart")

    def keep(self) -> asyncio.Task[None]:
        return asyncio.create_task(keep_token(self))


def test_token_is_renewed_at_half_of_its_lease(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def run() -> None:
        await prepare(rig.setup())
        work = rig.keep()
        await rig.clock.advance(LEASE_S / 2 - 1)
        assert rig.vault.renewals == 0
        await rig.clock.advance(1)
        assert rig.vault.renewals == 1
        await rig.clock.advance(LEASE_S / 2)
        assert (rig.vault.renewals, rig.vault.logins, rig.restarts) == (2, 1, 0)
        work.cancel()

    asyncio.run(run())


def test_restart_of_the_agent_does_not_begin_the_lease_anew(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def run() -> None:
        await prepare(rig.setup())
        rig.keep().cancel()
        await rig.clock.advance(LEASE_S / 4)
        work = rig.keep()
        await rig.clock.advance(LEASE_S / 4 - 1)
        assert rig.vault.renewals == 0
        await rig.clock.advance(1)
        assert rig.vault.renewals == 1
        work.cancel()

    asyncio.run(run())


def test_agent_that_was_away_past_half_of_the_lease_renews_at_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def run() -> None:
        await prepare(rig.setup())
        await rig.clock.advance(LEASE_S * 3 / 4)
        work = rig.keep()
        await rig.clock.advance(0)
        assert (rig.vault.renewals, rig.vault.logins, rig.restarts) == (1, 1, 0)
        work.cancel()

    asyncio.run(run())


def test_task_gets_another_token_when_its_lease_ended_while_the_agent_was_away(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path)

    async def run() -> None:
        await prepare(rig.setup())
        await rig.clock.advance(LEASE_S * 2)
        rig.vault.revoked = True
        work = rig.keep()
        await rig.clock.advance(0)
        assert (rig.file.read_text(), rig.restarts) == ("hvs.2", 1)
        work.cancel()

    asyncio.run(run())


def test_failed_renewal_is_tried_again_while_the_lease_still_runs(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def run() -> None:
        await prepare(rig.setup())
        work = rig.keep()
        rig.vault.broken = True
        await rig.clock.advance(LEASE_S / 2 + 12)
        rig.vault.broken = False
        await rig.clock.advance(5)
        assert (rig.vault.renewals, rig.vault.logins, rig.restarts) == (1, 1, 0)
        work.cancel()

    asyncio.run(run())


def test_clock_that_was_put_back_does_not_put_the_renewal_off(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def run() -> None:
        await prepare(rig.setup())
        back = type(rig.clock)(rig.clock.now_ns() - 7200 * 10**9)
        rig.setup().clock = rig.clock = back
        work = rig.keep()
        await back.advance(LEASE_S / 2)
        assert rig.vault.renewals == 1
        work.cancel()

    asyncio.run(run())


def test_templates_read_vault_again_with_the_new_token_and_not_with_the_same(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path)
    source = TokenReads()

    async def run() -> None:
        await prepare(rig.setup())
        reads = ClusterReads(clock=rig.clock)
        reads.add_source(source)
        access = partial(vault_access, rig.setup().task, rig.setup().paths.task_dir)
        reader = Reader("alloc", "web", "default", "job/web", access)
        rig.setup().task_templates = TaskTemplates(reads, reader)
        rig.setup().task_templates.subscription.ask(SECRET)
        work = rig.keep()
        await rig.clock.advance(LEASE_S / 2)
        assert source.tokens == ["hvs.1"]
        rig.vault.revoked = True
        await rig.clock.advance(LEASE_S / 2)
        assert source.tokens == ["hvs.1", "hvs.2"]
        work.cancel()
        await reads.close()

    asyncio.run(run())


SECRET = Query(QueryKind.VAULT_SECRET, "db/creds")


class TokenReads:
    """Notes the tokens with which it is read; what it gives has no end."""

    kinds = frozenset([QueryKind.VAULT_SECRET])
    is_per_task = True

    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def read(self, query: Query, reader: Reader, last: OutsideValue | None) -> OutsideValue:
        access = reader.vault_access()
        assert access is not None
        self.tokens.append(access.token)
        return OutsideValue({}, 100 * LEASE_S)
