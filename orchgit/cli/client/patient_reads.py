"""Reads what a command follows, over changes of leader and servers that stand still for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from orchgit.cli.client.http_client import ApiClient, ApiError

Piece = TypeVar("Piece")
LONGEST_FAULT_S = 900.0
"""Longer than any wait of the protocol; who follows can interrupt the command earlier."""
_PAUSE_S = 1.0
_FORBIDDEN, _NOT_FOUND = 403, 404
_WAIT = "10s"
"""Short, so that a server that stands still is noticed soon."""


class FaultNotices:
    """Tells on standard error that servers do not answer, and that they do again: once for each
    fault, however many threads follow parts of the same thing."""

    def __init__(self, following: str) -> None:
        """`following` names what the command waits for."""
        self.following = following
        self._lock = threading.Lock()
        self._waiting = 0

    def begin(self, error: ApiError) -> None:
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                click.echo(f"==> Waiting for servers to follow {self.following}: {error}", err=True)

    def end(self, goes_on: bool = True) -> None:
        """`goes_on`: whether servers answer again, or the waiting was given up."""
        with self._lock:
            self._waiting -= 1
            if goes_on and self._waiting == 0:
                click.echo(f"==> Servers answer again; following {self.following}.", err=True)


@dataclass(slots=True)
class Patience:
    """Decides for one reader whether, and from when on, a failed request is sent again."""

    notices: FaultNotices
    clock_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _failing_since_s: float | None = None

    def wait_after(self, error: ApiError) -> None:
        """Returns after a pause. Raises ApiError for a refusal, and once a fault has lasted too
        long."""
        is_refusal = bool(error.status and error.status < 500)
        if self._failing_since_s is None:
            if is_refusal:
                raise error
            self._failing_since_s = self.clock_s()
            self.notices.begin(error)
        lasts_s = self.clock_s() - self._failing_since_s
        if is_refusal or lasts_s > LONGEST_FAULT_S:
            self._failing_since_s = None
            self.notices.end(goes_on=False)
            if is_refusal:
                raise error
            raise ApiError(f"cannot follow {self.notices.following} further: {error}") from error
        self.sleep(_PAUSE_S)

    def answered(self) -> None:
        if self._failing_since_s is not None:
            self._failing_since_s = None
            self.notices.end()

    def stream(
        self,
        open_stream: Callable[[Callable[[], None]], Iterator[Piece]],
        has_end: bool = True,
    ) -> Iterator[Piece]:
        """Yields what a stream brings, and after a fault what it brings when it is opened again.

        `open_stream` is given what to call once a server answers with a stream; the error of a
        first request that none answers so is raised at once. A stream that `has_end` is done when
        it ends; any other is opened again, unless it brought nothing or was none.
        """
        was_open = is_open = False

        def opened() -> None:
            nonlocal was_open, is_open
            was_open = is_open = True
            self.answered()

        while True:
            is_open, is_empty = False, True
            try:
                for piece in open_stream(opened):
                    is_empty = False
                    yield piece
            except ApiError as error:
                if not was_open:
                    raise
                self.wait_after(error)
                continue
            if has_end:
                return
            what = f"cannot follow {self.notices.following}"
            if is_empty:
                why = "the server ended the stream at once; a token may lack the right to read it"
                self.wait_after(ApiError(f"{what}: {why}", _FORBIDDEN))
            elif not is_open:
                why = "no stream answered; is a server of orchgit or Nomad there?"
                self.wait_after(ApiError(f"{what}: {why}", _NOT_FOUND))
            else:
                self.wait_after(ApiError("cannot read on: the server ended the stream"))


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
    notices: FaultNotices | None = None
    _patience: Patience = field(init=False)

    def __post_init__(self) -> None:
        notices = self.notices or FaultNotices(self.following)
        self._patience = Patience(notices, self.clock_s, self.sleep)

    def get(self, path: str, /, **params: Any) -> Any:
        """Raises ApiError for a refusal, and for a fault that lasts too long."""
        while True:
            try:
                found = self.client.get(path, **params)
            except ApiError as error:
                self._patience.wait_after(error)
            else:
                self._patience.answered()
                return found

    def blocking_get(self, path: str, index: int, /, **params: Any) -> tuple[int, Any]:
        """Waits until the answer is newer than `index`; after a fault, returns what is there.

        Raises ApiError as `get`.
        """
        while True:
            try:
                found = self.client.blocking_get(path, index, **{"wait": _WAIT, **params})
            except ApiError as error:
                self._patience.wait_after(error)
                # The end of the fault is told at once, and a restored state may have lower indexes.
                index = 0
            else:
                self._patience.answered()
                return found
