"""The current tokens of one task's identities, signed by the servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

from agent.local_state.store import HeldToken
from orchgit.clock import Clock
from orchgit.errors import UnavailableError
from orchgit.model.workload_identity import DEFAULT_NAME, SignedIdentity, WantedIdentity

SignIdentities = Callable[[Sequence[WantedIdentity]], Awaitable[list[SignedIdentity]]]
"""Asks the servers for tokens of tasks of this node, in the order of the request."""


async def no_identities(wanted: Sequence[WantedIdentity]) -> list[SignedIdentity]:
    raise UnavailableError("cannot get the identities of a task: this agent has no servers")


HoldTokens = Callable[[dict[str, HeldToken]], None]
"""Stores the current tokens by identity."""


def hold_in_memory(tokens: dict[str, HeldToken]) -> None:
    """For tasks whose agent keeps no state."""


class TaskIdentities:
    """The servers are asked when a token is first wanted: most tasks never use theirs. `held` are
    the tokens that an agent before this one got."""

    def __init__(
        self,
        alloc_id: str,
        task_name: str,
        sign: SignIdentities,
        clock: Clock,
        held: Mapping[str, HeldToken] = MappingProxyType({}),
        hold: HoldTokens = hold_in_memory,
    ) -> None:
        self._alloc_id = alloc_id
        self._task_name = task_name
        self._sign = sign
        self._clock = clock
        self._current = dict(held)
        self._hold = hold
        self._signed = asyncio.Event()
        self._lock = asyncio.Lock()

    async def token(self, name: str = DEFAULT_NAME) -> str:
        """Returns a token that is valid for at least half of its time.

        Raises NotFoundError for an identity that the task does not have or an allocation that has
        ended, and UnavailableError while no server answers.
        """
        async with self._lock:
            due_ns = self.due_ns(name)
            if due_ns is None or self._clock.now_ns() < due_ns:
                return self._current[name].token
            (token,) = await self._signed_anew([name])
            return token

    def current(self, name: str) -> str | None:
        """Returns the latest token without a request, or None before the first."""
        known = self._current.get(name)
        return known.token if known is not None else None

    def due_ns(self, name: str) -> int | None:
        """Returns the Unix time at which the token is to be renewed: when half of its time is over.
        0 without a token, and None for one without an end."""
        known = self._current.get(name)
        return known.half_over_ns if known is not None else 0

    async def renew(self, names: Sequence[str]) -> list[str]:
        """Returns new tokens in the order of `names`, whatever the age of the current ones.

        Raises what `token` raises.
        """
        async with self._lock:
            return await self._signed_anew(names)

    async def renewed(self, token: str, name: str = DEFAULT_NAME) -> str:
        """Waits until the current token of `name` is another than `token`, and returns it."""
        while True:
            signed = self._signed
            known = self._current.get(name)
            if known is not None and known.token != token:
                return known.token
            await signed.wait()

    async def _signed_anew(self, names: Sequence[str]) -> list[str]:
        wanted = [WantedIdentity(self._alloc_id, self._task_name, name) for name in names]
        now_ns = self._clock.now_ns()
        signed = await self._sign(wanted)
        for name, each in zip(names, signed, strict=True):
            half_ns = (each.expires_ns - now_ns) // 2
            half_over_ns = now_ns + half_ns if each.expires_ns else None
            self._current[name] = HeldToken(each.token, half_over_ns)
        self._hold(dict(self._current))
        waiting, self._signed = self._signed, asyncio.Event()
        waiting.set()
        return [each.token for each in signed]
