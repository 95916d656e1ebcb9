"""What the agent asks of the server in use, beside the node's stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing

from orchgit.errors import UnavailableError
from orchgit.model.workload_identity import SignedIdentity, WantedIdentity
from orchgit.wire.channel import Channel
from orchgit.wire.messages import (
    AuthorizeReply,
    AuthorizeRequest,
    ClaimVolumeReply,
    ClaimVolumeRequest,
    HttpDown,
    HttpUp,
    LeaderReply,
    LeaderRequest,
    MigrationSourceReply,
    MigrationSourceRequest,
    SignIdentitiesRequest,
    TaskRead,
    TaskReadsReply,
    TaskReadsRequest,
)
from orchgit.wire.methods import (
    AGENT_HTTP,
    AUTHORIZE,
    CLAIM_VOLUME,
    LEADER,
    MIGRATION_SOURCE,
    SIGN_IDENTITIES,
    TASK_API,
    TASK_READS,
)
from orchgit.wire.tls import TlsFiles

_ANSWER_S = 10.0
_CLAIM_S = 120.0
"""A storage provider may take minutes to attach a volume."""


class ServerCalls:
    """Keeps one connection to the server in use.

    `address` gives that server, "" without one: then every call raises UnavailableError.
    """

    def __init__(
        self, address: Callable[[], str], tls: TlsFiles | None, node_id: str, node_secret: str
    ) -> None:
        self._address = address
        self._tls = tls
        self._node_id = node_id
        self._node_secret = node_secret
        self._channel: Channel | None = None

    async def authorize(self, request: AuthorizeRequest) -> AuthorizeReply:
        channel = await self._connected("check a token")
        return await channel.call(AUTHORIZE, request, _ANSWER_S)

    async def sign_identities(self, wanted: Sequence[WantedIdentity]) -> list[SignedIdentity]:
        """Returns tokens of tasks of this node."""
        channel = await self._connected("get the identities of a task")
        request = SignIdentitiesRequest(self._node_id, self._node_secret, list(wanted))
        return (await channel.call(SIGN_IDENTITIES, request, _ANSWER_S)).identities

    async def own_identity(self) -> SignedIdentity | None:
        """Returns the node's own token; None from a server that knows of none."""
        channel = await self._connected("get the node's identity")
        request = SignIdentitiesRequest(self._node_id, self._node_secret, own=True)
        return (await channel.call(SIGN_IDENTITIES, request, _ANSWER_S)).own

    async def migration_source(self, alloc_id: str) -> MigrationSourceReply:
        """Returns where the data is that the allocation takes over."""
        channel = await self._connected("ask where data is")
        request = MigrationSourceRequest(self._node_id, self._node_secret, alloc_id)
        return await channel.call(MIGRATION_SOURCE, request, request.wait_s + _ANSWER_S)

    async def ask_leader(self, address: str, request: LeaderRequest) -> LeaderReply:
        """Returns what the server at `address` knows of the leader."""
        channel = Channel(address, self._tls)
        try:
            return await channel.call(LEADER, request, request.timeout_s + _ANSWER_S)
        finally:
            await channel.close()

    async def claim_volume(self, alloc_id: str, name: str, release: bool) -> ClaimVolumeReply:
        """Claims a CSI volume by the group's name of it, or gives the claim back."""
        channel = await self._connected("claim a volume")
        request = ClaimVolumeRequest(self._node_id, self._node_secret, alloc_id, name, release)
        return await channel.call(CLAIM_VOLUME, request, _CLAIM_S)

    async def read_for_tasks(self, reads: list[TaskRead], wait_s: float) -> TaskReadsReply:
        """Returns what tasks wait for; the answer may take `wait_s`."""
        channel = await self._connected("read for tasks")
        request = TaskReadsRequest(self._node_id, self._node_secret, reads, wait_s)
        return await channel.call(TASK_READS, request, wait_s + _ANSWER_S)

    async def task_request(self, frames: AsyncIterator[HttpUp]) -> AsyncGenerator[HttpDown]:
        """Yields the answer to a task's request for the HTTP API."""
        channel = await self._connected("answer")
        async with aclosing(channel.stream(TASK_API, frames)) as answer:
            async for frame in answer:
                yield frame

    async def agent_request(self, frames: AsyncIterator[HttpUp]) -> AsyncGenerator[HttpDown]:
        """Yields the answer to a request for the HTTP API that came to this agent."""
        channel = await self._connected("answer")
        async with aclosing(channel.stream(AGENT_HTTP, frames)) as answer:
            async for frame in answer:
                yield frame

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _connected(self, what: str) -> Channel:
        address = self._address()
        if not address:
            raise UnavailableError(f"cannot {what}: no server is connected")
        if self._channel is None or self._channel.address != address:
            old, self._channel = self._channel, Channel(address, self._tls)
            if old is not None:
                await old.close()
        return self._channel
