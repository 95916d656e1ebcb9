"""The current tokens of one task's identities, signed by the servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from orchgit.clock import Clock
from orchgit.errors import UnavailableError
from orchgit.model.workload_identity import DEFAULT_NAME, SignedIdentity, WantedIdentity

SignIdentities = Callable[[Sequence[WantedIdentity]], Awaitable[list[SignedIdentity]]]
"""Asks the servers for tokens of tasks of this node, in the order of the request."""


async def no_identities(wanted: Sequence[WantedIdentity]) -> list[SignedIdentity]:
    raise UnavailableError("cannot get the identities of a task: this agent has no servers")


@dataclass(frozen=True, slots=True)
class _Current:
    token: str = field(repr=False)
    half_over_ns: int | None
    """Unix time at which half of the token's time is over; None for a token without an end."""


class TaskIdentities:
    """The servers are asked when a token is first wanted: most tasks never use theirs."""

    def __init__(self, alloc_id: str, task_name: str, sign: SignIdentities, clock: Clock) -> None:
        self._alloc_id = alloc_id
        self._task_name = task_name
        self._sign = sign
        self._clock = clock
        self._current: dict[str, _Current] = {}
        self._signed = asyncio.Event()
        self._lock = asyncio.Lock()

    async def token(self, name: str = DEFAULT_NAME) -> str:
        """Returns a token that is valid for at least half of its time.

        Raises NotFoundError for an identity that the task does not have or an allocation that has
        ended, and UnavailableError while no server answers.
        """
        async with self._lock:
            known = self._current.get(name)
            if known is not None and (
                known.half_over_ns is None or self._clock.now_ns() < known.half_over_ns
            ):
                return known.token
            (token,) = await self._signed_anew([name])
            return token

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
            self._current[name] = _Current(each.token, half_over_ns)
        waiting, self._signed = self._signed, asyncio.Event()
        waiting.set()
        return [each.token for each in signed]
