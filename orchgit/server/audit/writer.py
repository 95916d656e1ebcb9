"""Writes records of many requests together, on a thread of its own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import structlog

from orchgit.clock import Clock
from orchgit.errors import InvalidInputError
from orchgit.server.audit.file_sink import FileSink
from orchgit.server.audit.settings import AuditSettings

_log = structlog.get_logger(component="audit")

MAX_WAITING = 10_000
"""Records that may wait where delivery is best effort; more are dropped."""
_WARN_EVERY_S = 60.0


class AuditWriter:
    """Belongs to one event loop. The disk may stall: then requests wait, and the loop does not."""

    def __init__(self, settings: AuditSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._sink = FileSink(settings, clock)
        self._waiting: list[tuple[bytes, asyncio.Future[None] | None]] = []
        self._executor = ThreadPoolExecutor(1, "audit")
        self._writing: asyncio.Task[None] | None = None
        self._warned_s: float | None = None
        self._is_closed = False

    def open(self) -> None:
        """Raises InvalidInputError if the file cannot be written and delivery is enforced."""
        try:
            self._sink.open()
        except OSError as error:
            if self._settings.enforced:
                raise InvalidInputError(
                    f"cannot write the audit log {self._settings.path}: {error.strerror}; choose "
                    'another audit.sink.path, or delivery_guarantee = "best-effort"'
                ) from error
            self._warn(error)

    async def write(self, line: bytes) -> bool:
        """Returns whether the request may go on: True when the line is written, or where delivery
        is best effort."""
        if self._is_closed:
            return not self._settings.enforced
        if not self._settings.enforced:
            if len(self._waiting) < MAX_WAITING:
                self._enqueue(line, None)
            return True
        written = asyncio.get_running_loop().create_future()
        self._enqueue(line, written)
        try:
            await written
        except OSError:
            return False
        return True

    async def close(self) -> None:
        self._is_closed = True
        if self._writing is not None:
            await self._writing
        self._executor.shutdown()
        self._sink.close()

    def _enqueue(self, line: bytes, written: asyncio.Future[None] | None) -> None:
        self._waiting.append((line, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_waiting(), name="audit log")

    async def _write_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            error: OSError | None = None
            try:
                data = b"".join(line for line, _ in batch)
                await loop.run_in_executor(self._executor, self._sink.write, data)
            except OSError as failed:
                error = failed
                self._warn(failed)
            for _, written in batch:
                if written is None or written.done():
                    continue
                if error is not None:
                    written.set_exception(error)
                else:
                    written.set_result(None)

    def _warn(self, error: OSError) -> None:
        now_s = self._clock.monotonic_s()
        if self._warned_s is None or now_s - self._warned_s >= _WARN_EVERY_S:
            self._warned_s = now_s
            log = _log.error if self._settings.enforced else _log.warning
            log(
                "cannot write the audit log",
                path=str(self._settings.path),
                error=error.strerror,
                requests="refused" if self._settings.enforced else "answered without a record",
            )
