"""A command on its way through the log, and the caller that waits for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from orchgit.errors import NotLeaderError, OrchgitError, UnavailableError


@dataclass(frozen=True, slots=True)
class Applied:
    """A command's place in the log, and what its handler returned."""

    index: int
    result: Any


class Proposal:
    """Made and answered on the event loop's thread; carried by the raft and applier threads."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Applied] = self.loop.create_future()

    def answer(self, index: int, result: object) -> None:
        """Give the waiter the result, or raise the error that refused the entry."""
        if self.future.done():
            return
        if isinstance(result, OrchgitError):
            self.future.set_exception(result)
        else:
            self.future.set_result(Applied(index, result))

    def fail(self, error: OrchgitError) -> None:
        """It was not applied, as far as this server knows; from any thread."""
        self.loop.call_soon_threadsafe(self.answer, 0, error)

    def expire(self) -> None:
        """Nothing came back in time: the waiter gets a TimeoutError."""
        if not self.future.done():
            self.future.set_exception(TimeoutError())


def not_leader(leader: str | None) -> NotLeaderError:
    where = f"ask {leader}" if leader else "no leader is known; try again"
    return NotLeaderError(f"cannot write: this server is not the leader; {where}", leader)


def unknown_outcome() -> UnavailableError:
    return UnavailableError(
        "cannot tell whether the write was made: leadership changed meanwhile; read the state"
    )


def queue_full() -> UnavailableError:
    return UnavailableError("cannot take more writes: too many wait for the log; try again")


def stopped() -> UnavailableError:
    return UnavailableError("cannot write: this server is stopping")


def stopped_meanwhile() -> UnavailableError:
    return UnavailableError(
        "cannot tell whether the write was made: this server is stopping; read the state from "
        "another one, or when it is back"
    )
