"""What an operator asks of one process, a server's or an agent's: its log and its profiles."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from orchgit import logs
from orchgit.api import profiles
from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError, NotFoundError, RefusedError

HEARTBEAT_S = 10.0
_LOOK_S = 1.0
"""How often a monitor looks whether its process stops or its caller lost the right."""
MAX_PROFILE_S = 30
MAX_MONITORS = 16


@dataclass(slots=True)
class _Monitors:
    """How many follow the log now."""

    count: int = 0


_MONITORS = _Monitors()


@dataclass(frozen=True, slots=True)
class ProcessLog:
    level: str
    plain: bool
    as_json: bool
    with_location: bool

    @property
    def media_type(self) -> str:
        return "text/plain" if self.plain else "application/json"


def monitored(options: ProcessLog, goes_on: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Returns the lines of this process's log from now on, until `goes_on` returns False.
    Raises InvalidInputError for an unknown level, RefusedError where too many follow the log."""
    if not logs.is_level(options.level):
        raise InvalidInputError(f"Unknown log level: {options.level}")
    if _MONITORS.count >= MAX_MONITORS:
        raise RefusedError(f"cannot follow the log: {MAX_MONITORS} clients do so already")
    return _lines(options, goes_on)


async def _lines(options: ProcessLog, goes_on: Callable[[], bool]) -> AsyncIterator[bytes]:
    loop, fresh = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(fresh.set)

    _MONITORS.count += 1
    try:
        with logs.followed(options.level, options.as_json, wake, options.with_location) as tap:
            silent_s = HEARTBEAT_S  # a client learns at once that its request is accepted
            while goes_on():
                lines = tap.take()
                if lines:
                    silent_s = 0.0
                    yield _framed("\n".join(lines) + "\n", options.plain)
                elif silent_s >= HEARTBEAT_S and not options.plain:
                    silent_s = 0.0
                    yield b"{}"
                try:
                    await asyncio.wait_for(fresh.wait(), _LOOK_S)
                except TimeoutError:
                    silent_s += _LOOK_S
                fresh.clear()
    finally:
        _MONITORS.count -= 1


def _framed(text: str, plain: bool) -> bytes:
    data = text.encode()
    if plain:
        return data
    return nomad_json.encode({"Data": base64.b64encode(data).decode()})


async def profile(name: str, seconds: int) -> str:
    """Returns a profile of this process. Raises NotFoundError for an unknown one, InvalidInputError
    for one that only Go has."""
    if name not in profiles.ALL:
        raise NotFoundError(f"Pprof profile not found profile: {name}")
    if name in profiles.ONLY_GO:
        raise InvalidInputError(
            f"cannot make profile {name!r}: Python keeps no such record; "
            f"there are {', '.join((*profiles.MADE, *profiles.OF_LOOP))}"
        )
    if not 0 < seconds <= MAX_PROFILE_S:
        raise InvalidInputError(f"cannot profile: seconds must be from 1 to {MAX_PROFILE_S}")
    if name == "cmdline":
        return "\0".join(sys.argv)
    if name == "goroutine":
        return profiles.stacks(asyncio.all_tasks())
    return await asyncio.to_thread(profiles.MADE[name], seconds)
