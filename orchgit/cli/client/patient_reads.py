"""Reads what a command follows, over changes of leader and servers that stand still for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError

LONGEST_FAULT_S = 900.0
"""Longer than any wait of the protocol; who follows can interrupt the command earlier."""
_PAUSE_S = 1.0
_WAIT = "10s"
"""Short, so that a server that stands still is noticed soon."""


@dataclass(slots=True)
class PatientReads:
    """Asks again while no server answers, and says so, once for each fault, on standard error.

    `following` names what the command waits for. An answer that refuses the request ends the
    command as ever.
    """

    client: ApiClient
    following: str
    clock_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _failing_since_s: float | None = None

    def get(self, path: str, /, **params: Any) -> Any:
        """Raises ApiError for a refusal, and for a fault that lasts too long."""
        while True:
            try:
                found = self.client.get(path, **params)
            except ApiError as error:
                self._wait_after(error)
            else:
                self._answered()
                return found

    def blocking_get(self, path: str, index: int, /, **params: Any) -> tuple[int, Any]:
        """Waits until the answer is newer than `index`; after a fault, returns what is there.

        Raises ApiError as `get`.
        """
        while True:
            try:
                found = self.client.blocking_get(path, index, **{"wait": _WAIT, **params})
            except ApiError as error:
                self._wait_after(error)
                # The end of the fault is told at once, and a restored state may have lower indexes.
                index = 0
            else:
                self._answered()
                return found

    def _wait_after(self, error: ApiError) -> None:
        if error.status and error.status < 500:
            raise error
        if self._failing_since_s is None:
            self._failing_since_s = self.clock_s()
            click.echo(f"==> Waiting for servers to follow {self.following}: {error}", err=True)
        if self.clock_s() - self._failing_since_s > LONGEST_FAULT_S:
            raise ApiError(f"cannot follow {self.following} further: {error}") from error
        self.sleep(_PAUSE_S)

    def _answered(self) -> None:
        if self._failing_since_s is not None:
            self._failing_since_s = None
            click.echo(f"==> Servers answer again; following {self.following}.", err=True)
