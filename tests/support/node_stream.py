"""An agent's stream to a server, over a channel of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from orchgit.wire.channel import Channel
from orchgit.wire.messages import AgentFrame, ServerFrame
from orchgit.wire.methods import CONNECT_NODE


async def open_node_stream(
    address: str, frames: AsyncIterator[AgentFrame]
) -> AsyncGenerator[ServerFrame]:
    channel = Channel(address)
    try:
        async for frame in channel.stream(CONNECT_NODE, frames):
            yield frame
    finally:
        await channel.close()
