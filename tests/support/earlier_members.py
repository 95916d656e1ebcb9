"""A cluster in the middle of an upgrade: some member understands only an earlier version."""

from __future__ import annotations

from typing import Any

from orchgit.errors import NotUnderstoodError
from orchgit.replication.commands.codec import Command
from orchgit.replication.replicated import ReplicatedState
from orchgit.services.context import UseCaseContext


class WithEarlierMember:
    """A state that refuses commands which a member of `version` would not understand; a test may
    upgrade the member."""

    def __init__(self, state: ReplicatedState, version: int) -> None:
        self._state = state
        self.version = version

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    async def propose(self, command: Command, *arguments: Any, **named: Any) -> Any:
        if command.since > self.version:
            raise NotUnderstoodError(f"cannot do this yet ({type(command).__name__})")
        return await self._state.propose(command, *arguments, **named)


def with_member_of(version: int, context: UseCaseContext) -> UseCaseContext:
    """The same context while a member of that version is in the cluster."""
    return with_state(WithEarlierMember(context.state, version), context)


def with_state(state: Any, context: UseCaseContext) -> UseCaseContext:
    """The same context by another state."""
    return UseCaseContext(state, context.clock, context.ids)
