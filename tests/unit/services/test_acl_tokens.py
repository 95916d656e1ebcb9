"""Lives of tokens on a real log, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.clock import SECOND_NS, FakeClock
from orchgit.errors import ConflictError, InvalidInputError, NotAllowedError, OrchgitError
from orchgit.model.acl import (
    AclAuthMethod,
    AclPolicy,
    AclRole,
    AuthMethodConfig,
    PolicyLink,
    RoleLink,
)
from orchgit.services.acl.auth_methods import REDACTED, put_auth_method, secrets_of
from orchgit.services.acl.bootstrap import bootstrap
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.one_time_tokens import create_one_time_token, use_one_time_token
from orchgit.services.acl.policies import put_policy
from orchgit.services.acl.providers import IdentityProviders
from orchgit.services.acl.resolve import resolve
from orchgit.services.acl.roles import delete_role, put_role
from orchgit.services.acl.settings import AclSettings
from orchgit.services.acl.tokens import WantedToken, delete_tokens, put_token, secret_of
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.secrets.sealing import new_key
from tests.support.use_cases import running_context, with_context

SETTINGS = AclSettings(enabled=True, token_min_expiration_ttl_ns=SECOND_NS)
MANAGEMENT = WantedToken(name="m", type="management")
METHOD = AclAuthMethod(
    "sso",
    "OIDC",
    token_locality="local",
    max_token_ttl_ns=60 * SECOND_NS,
    config=AuthMethodConfig(
        oidc_discovery_url="http://127.0.0.1:1", oidc_client_id="c", oidc_client_secret="s"
    ),
)


def acl_of(context: UseCaseContext) -> AclContext:
    keyring = Keyring(context, new_key())
    return AclContext(context, keyring, SETTINGS, IdentityProviders(context.clock))


def run(work: Callable[[AclContext], Awaitable[None]]) -> None:
    with_context(lambda context: work(acl_of(context)))


def policies_of(acl: AclContext, secret: str) -> tuple[str, ...] | None:
    """Returns the policies behind a secret; None where it is nobody's."""
    with acl.context.snapshot() as snapshot:
        identity = resolve(snapshot, secret, acl.context.now_ns())
    return None if identity is None else identity.policies


def test_role_gives_its_policies_until_it_is_deleted() -> None:
    async def work(acl: AclContext) -> None:
        for name in ("p", "q"):
            await put_policy(acl, AclPolicy(name, rules='node { policy = "read" }'))
        links = [PolicyLink(name) for name in ("p", "q", "p")]
        role = await put_role(acl, AclRole(name="r", policies=links))
        wanted = WantedToken(type="client", policies=["q", "x"], roles=[RoleLink(name="r")])
        made = await put_token(acl, wanted)
        assert policies_of(acl, made.secret) == ("q", "x", "p")
        await put_role(acl, replace(role, name="renamed", policies=links[:1]))
        assert policies_of(acl, made.secret) == ("q", "x", "p")
        await delete_role(acl, role.id)
        assert policies_of(acl, made.secret) == ("q", "x")

    run(work)


def test_secret_that_is_in_use_is_refused() -> None:
    async def work(acl: AclContext) -> None:
        made = await bootstrap(acl)
        with pytest.raises(InvalidInputError, match="in use"):
            await put_token(acl, replace_secret(MANAGEMENT, made.secret))

    run(work)


def replace_secret(wanted: WantedToken, secret: str) -> WantedToken:
    return WantedToken(name=wanted.name, type=wanted.type, secret=secret)


def test_full_rotation_seals_tokens_and_auth_methods_anew() -> None:
    async def work(acl: AclContext) -> None:
        made = await bootstrap(acl)
        await put_auth_method(acl, METHOD)
        old_key = made.token.key_id
        await acl.keyring.rotate(acl.context, full=False)
        with pytest.raises(ConflictError, match="seals secrets of tokens"):
            await acl.keyring.delete(acl.context, old_key)
        await acl.keyring.rotate(acl.context, full=True)
        await acl.keyring.delete(acl.context, old_key)
        with acl.context.snapshot() as snapshot:
            token = snapshot.acl_tokens.get(made.token.accessor_id)
            method = snapshot.acl_auth_methods.get("sso")
        assert token is not None
        assert method is not None
        assert secret_of(acl, token) == made.secret
        assert secrets_of(acl, method).oidc_client_secret == "s"
        assert token.modify_index == made.token.modify_index

    run(work)


def test_redacted_secret_of_a_method_keeps_the_stored_one() -> None:
    async def work(acl: AclContext) -> None:
        stored = await put_auth_method(acl, METHOD)
        assert stored.config is not None
        assert stored.config.oidc_client_secret == REDACTED
        again = await put_auth_method(acl, replace(METHOD, config=stored.config))
        assert secrets_of(acl, again).oidc_client_secret == "s"
        kept = await put_auth_method(acl, replace(METHOD, config=None))
        assert secrets_of(acl, kept).oidc_client_secret == "s"
        without = replace(stored.config, oidc_client_secret="")
        cleared = await put_auth_method(acl, replace(METHOD, config=without))
        assert cleared.secrets is None

    run(work)


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "expiring", "change", "delete", "one-time", "use", "wait"]),
        st.integers(0, 3),
    ),
    max_size=14,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
@example([("create", 0), ("one-time", 0), ("wait", 3), ("use", 0)])
@example([("expiring", 0), ("one-time", 0), ("wait", 2), ("use", 0)])
def test_exactly_the_living_tokens_are_somebody(steps: list[Step]) -> None:
    """Any order of writes and waits against a model: which secret is whose, until when."""

    async def work() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with running_context(Path(directory)) as context:
                await follow(acl_of(context), steps)

    asyncio.run(work())


async def follow(acl: AclContext, steps: list[Step]) -> None:
    clock = acl.context.clock
    assert isinstance(clock, FakeClock)
    secrets: list[str] = []
    accessors: list[str] = []
    policies: dict[str, tuple[str, ...]] = {}
    ends_ns: dict[str, int] = {}
    deleted: set[str] = set()
    one_time: list[tuple[str, str, int]] = []
    for kind, number in steps:
        if kind in ("create", "expiring"):
            ttl_ns = 400 * SECOND_NS if kind == "expiring" else 0
            wanted = WantedToken(type="client", policies=[f"p{number}"], expiration_ttl_ns=ttl_ns)
            made = await put_token(acl, wanted)
            secrets.append(made.secret)
            accessors.append(made.token.accessor_id)
            policies[made.secret] = (f"p{number}",)
            ends_ns[made.secret] = clock.now_ns() + ttl_ns if ttl_ns else 0
        elif kind == "wait":
            await clock.advance(number * 250)
        elif secrets and kind in ("change", "delete", "one-time"):
            at = number % len(secrets)
            secret, gone = secrets[at], secrets[at] in deleted
            try:
                if kind == "change":
                    wanted = WantedToken(
                        accessor_id=accessors[at], type="client", policies=["changed"]
                    )
                    await put_token(acl, wanted)
                    policies[secret] = ("changed",)
                elif kind == "delete":
                    await delete_tokens(acl, [accessors[at]])
                    deleted.add(secret)
                else:
                    created = await create_one_time_token(acl, secret)
                    one_time.append((created.secret, secret, created.token.expires_at_ns))
                assert not gone
            except OrchgitError:
                assert gone
        elif one_time and kind == "use":
            used, secret, until_ns = one_time.pop(number % len(one_time))
            works = secret not in deleted and clock.now_ns() < until_ns
            try:
                found, _ = await use_one_time_token(acl, used)
                assert (works, found.secret) == (True, secret)
            except NotAllowedError:
                assert not works
            with pytest.raises(NotAllowedError):
                await use_one_time_token(acl, used)
    for secret in secrets:
        is_over = 0 < ends_ns[secret] <= clock.now_ns()
        expected = None if secret in deleted or is_over else policies[secret]
        assert policies_of(acl, secret) == expected
