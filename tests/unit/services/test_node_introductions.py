"""Which new nodes servers take, and with which token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from orchgit.clock import SECOND_NS
from orchgit.errors import InvalidInputError, NotAllowedError
from orchgit.model.node import Node
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.secrets.node_identities import (
    Enforcement,
    IntroductionSettings,
    NodeIdentityUseCases,
)
from orchgit.services.secrets.sealing import new_key
from orchgit.services.services import NodeUseCases
from tests.support.factories import make_node
from tests.support.use_cases import with_context

NEW = make_node(name="n1", node_pool="gpu")


def with_nodes(
    work: Callable[[NodeUseCases], Awaitable[None]],
    enforcement: str = Enforcement.STRICT,
) -> None:
    async def run(context: UseCaseContext) -> None:
        settings = IntroductionSettings(enforcement=enforcement)
        identities = NodeIdentityUseCases(context, Keyring(context, new_key()), "", settings)
        await work(NodeUseCases(context, identities))

    with_context(run)


@pytest.mark.parametrize("enforcement", [Enforcement.NONE, Enforcement.WARN])
def test_new_node_joins_without_a_token_unless_servers_are_strict(enforcement: str) -> None:
    async def work(nodes: NodeUseCases) -> None:
        await nodes.register(NEW)

    with_nodes(work, enforcement)


@pytest.mark.parametrize(
    ("name", "pool", "node", "refusal"),
    [
        ("n1", "gpu", NEW, ""),
        ("", "gpu", NEW, ""),
        ("n2", "gpu", NEW, "introduces node n2"),
        ("n1", "", NEW, "of pool default"),
    ],
)
def test_token_introduces_the_node_that_it_names(
    name: str, pool: str, node: Node, refusal: str
) -> None:
    async def work(nodes: NodeUseCases) -> None:
        token = await nodes.identities.introduce(name, pool, 0)
        if refusal:
            with pytest.raises(NotAllowedError, match=refusal):
                await nodes.register(node, token)
        else:
            await nodes.register(node, token)

    with_nodes(work)


@pytest.mark.parametrize("token", ["", "nonsense", "a.b.c"])
def test_strict_servers_refuse_a_new_node_without_a_valid_token(token: str) -> None:
    async def work(nodes: NodeUseCases) -> None:
        with pytest.raises(NotAllowedError, match="cannot register node n1"):
            await nodes.register(NEW, token)

    with_nodes(work)


def test_known_node_needs_no_token_to_come_back() -> None:
    async def work(nodes: NodeUseCases) -> None:
        token = await nodes.identities.introduce("n1", "gpu", 0)
        await nodes.register(NEW, token)
        await nodes.register(replace(NEW, node_class="big"))

    with_nodes(work)


def test_identity_of_a_node_introduces_no_other() -> None:
    async def work(nodes: NodeUseCases) -> None:
        await nodes.register(NEW, await nodes.identities.introduce("n1", "gpu", 0))
        own = (await nodes.identities.sign_node(NEW.id, NEW.secret_id)).token
        with pytest.raises(NotAllowedError, match="none of this cluster's introductions"):
            await nodes.register(make_node(name="n2", node_pool="gpu"), own)
        with pytest.raises(NotAllowedError, match="the secret is not"):
            await nodes.identities.sign_node(NEW.id, "wrong")

    with_nodes(work)


@pytest.mark.parametrize("ttl_ns", [-1, 3600 * SECOND_NS])
def test_token_for_longer_than_the_configured_time_is_refused(ttl_ns: int) -> None:
    async def work(nodes: NodeUseCases) -> None:
        with pytest.raises(InvalidInputError, match="the most is 30m0s"):
            await nodes.identities.introduce("", "", ttl_ns)

    with_nodes(work)
