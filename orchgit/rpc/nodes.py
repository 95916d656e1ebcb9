"""What agents ask of the servers: one stream per node."""

from __future__ import annotations

from collections.abc import AsyncIterator

from orchgit.control.leader import Control
from orchgit.errors import NotLeaderError, UnavailableError
from orchgit.rpc.node_stream import NodeStream, ServerIdentity
from orchgit.services.cluster.server_directory import ServerDirectory
from orchgit.services.csi.node_calls import NodeCalls
from orchgit.services.services import NodeUseCases
from orchgit.state.store import Store
from orchgit.wire import methods
from orchgit.wire.messages import AgentFrame, ServerFrame
from orchgit.wire.serve import GrpcServer


class NodeServicer:
    """Keeps one stream per node: a newer one ends the older, which is usually a dead connection
    that nobody has noticed yet."""

    def __init__(
        self,
        nodes: NodeUseCases,
        control: Control,
        store: Store,
        identity: ServerIdentity,
        cluster: ServerDirectory,
        calls: NodeCalls | None = None,
    ) -> None:
        self._calls = calls or NodeCalls()
        self._cluster = cluster
        self._nodes = nodes
        self._control = control
        self._store = store
        self._identity = identity
        self._streams: dict[str, NodeStream] = {}

    def register(self, server: GrpcServer) -> None:
        server.add_stream(methods.CONNECT_NODE, self.connect)

    def end_all(self) -> None:
        """This server no longer leads: every agent is to find the next leader."""
        for stream in self._streams.values():
            stream.end(NotLeaderError("cannot go on: this server no longer leads"))

    @property
    def connected(self) -> frozenset[str]:
        """Nodes with a stream to this server."""
        return frozenset(self._streams)

    async def connect(self, frames: AsyncIterator[AgentFrame]) -> AsyncIterator[ServerFrame]:
        stream = NodeStream(
            self._nodes,
            self._control,
            self._store,
            self._identity,
            self._cluster,
            self._calls,
        )
        yield await stream.hello(frames)
        if not stream.node_id:
            return
        older = self._streams.get(stream.node_id)
        if older is not None:
            older.end(UnavailableError("cannot go on: a newer stream of this node has begun"))
        self._streams[stream.node_id] = stream
        try:
            async for frame in stream.run(frames):
                yield frame
        finally:
            if self._streams.get(stream.node_id) is stream:
                del self._streams[stream.node_id]
