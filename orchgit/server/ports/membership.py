"""Changes the cluster's membership as operators ask."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.control.leader import Control
from orchgit.control.watchers.autopilot import ClusterHealth
from orchgit.errors import RefusedError
from orchgit.server.membership.joining import Joining
from orchgit.services.cluster.server_directory import ServerDirectory


class MembershipOperations:
    """The `MembershipPort` of the API."""

    def __init__(self, joining: Joining, directory: ServerDirectory, control: Control) -> None:
        self._joining = joining
        self._directory = directory
        self._control = control

    async def join(self, addresses: Sequence[str]) -> tuple[int, str]:
        return await self._joining.join(addresses)

    async def force_leave(self, name: str) -> None:
        named = [
            one
            for one in self._directory.servers()
            if name in (one.name, f"{one.name}.{one.region}")
        ]
        if not named:
            return  # as it shall be; Nomad's clients may ask again
        if len(named) > 1:
            raise RefusedError(
                f"cannot remove server {name!r}: {len(named)} servers have that name "
                f"({', '.join(one.address for one in named)}); `orchgit operator raft remove-peer "
                "-peer-address ADDRESS` removes one of them"
            )
        await self._joining.force_leave(named[0].address)

    def autopilot_health(self) -> ClusterHealth:
        return self._control.autopilot_health()
