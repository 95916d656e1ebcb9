"""The failure after which a server confirms no more writes: its disk's or its database's."""

from __future__ import annotations

import asyncio

from orchgit.errors import UnavailableError


class WriteFailure:
    """Belongs to the event loop. Once there is a failure, it stays; reads go on."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._happened = asyncio.Event()

    def happen(self, error: BaseException) -> None:
        """The first failure counts."""
        if self.error is None:
            self.error = error
            self._happened.set()

    async def happened(self) -> None:
        """Returns when writing has failed for good; the server should stop."""
        await self._happened.wait()

    def check(self) -> None:
        """Raises UnavailableError after a failure."""
        if self.error is not None:
            raise self.refusal() from self.error

    def refusal(self) -> UnavailableError:
        """Returns a new object each time, as it is raised in many tasks."""
        return UnavailableError(
            f"cannot confirm writes: the log or the state of this server failed ({self.error}); "
            "look at the disk, then restart the server"
        )
