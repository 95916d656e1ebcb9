"""Answers questions in SQL by processes with limits, a few at a time."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from orchgit.child import DEVNULL, PIPE, Child, bare_environment, start_child
from orchgit.errors import InvalidInputError, UnavailableError
from orchgit.sql.messages import SqlAnswer, SqlQuestion, SqlRefusal
from orchgit.sql.views import VIEWS

_MIB = 1024 * 1024
_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """What a question may cost. At most `processes` run at once, and `waiting` more wait."""

    time_s: float = 10.0
    memory_bytes: int = 512 * _MIB
    max_rows: int = 10_000
    max_bytes: int = 16 * _MIB
    processes: int = 2
    waiting: int = 16


class SqlRunner:
    """Asks the database of one server, once the server has opened it. Belongs to the event loop."""

    def __init__(self, database: Callable[[], Path], limits: SqlLimits | None = None) -> None:
        self._database = database
        self._limits = limits or SqlLimits()
        self._turns = asyncio.Semaphore(self._limits.processes)
        self._asked = 0

    async def ask(
        self,
        query: str,
        max_rows: int | None = None,
        namespaces: Sequence[str] | None = None,
        without: Sequence[str] = (),
    ) -> SqlAnswer:
        """Returns the answer, from the state as this server has it.

        `namespaces`: None for all of them; `without`: views that have no rows. Raises
        InvalidInputError for what is no question or costs too much, and UnavailableError while too
        many are asked.
        """
        limits = self._limits
        if max_rows is not None and not 0 <= max_rows <= limits.max_rows:
            raise InvalidInputError(
                f"cannot answer {max_rows} rows: the limit is {limits.max_rows}"
            )
        if self._asked >= limits.processes + limits.waiting:
            raise UnavailableError(
                f"cannot answer: {self._asked} questions are asked already; try again later"
            )
        question = SqlQuestion(
            database=str(self._database()),
            query=query.strip().rstrip(";"),
            max_rows=limits.max_rows if max_rows is None else max_rows,
            max_bytes=limits.max_bytes,
            time_s=limits.time_s,
            namespaces=None if namespaces is None else list(namespaces),
            without=list(without),
        )
        self._asked += 1
        try:
            async with self._turns:
                return await self._answer(question)
        finally:
            self._asked -= 1

    def schema(self) -> list[dict[str, Any]]:
        """Returns the tables that a question may name, with their columns."""
        return [
            {
                "Name": view.name,
                "About": view.about,
                "Columns": [
                    {"Name": each.name, "Type": each.type, "About": each.about}
                    for each in view.columns
                ],
            }
            for view in VIEWS
        ]

    async def _answer(self, question: SqlQuestion) -> SqlAnswer:
        child = await start_child(
            *(sys.executable, "-m", "orchgit.sql.worker"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd="/",
            env=bare_environment(),
            start_new_session=True,
        )
        try:
            self._limit(child)
            async with asyncio.timeout(question.time_s + _GRACE_S):
                output = await _exchanged(child, msgspec.json.encode(question))
        except TimeoutError:
            raise InvalidInputError(
                f"cannot answer within {question.time_s:g} s; name fewer rows"
            ) from None
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
            child.close()
        if child.returncode != 0:
            raise InvalidInputError(
                f"cannot answer: the process that answers ended with {child.returncode}; it may "
                f"use {self._limits.memory_bytes // _MIB} MiB; name fewer rows or columns"
            )
        try:
            refusal = msgspec.json.decode(output, type=SqlRefusal)
        except msgspec.ValidationError:
            return msgspec.json.decode(output, type=SqlAnswer)
        raise InvalidInputError(refusal.error)

    def _limit(self, child: Child) -> None:
        memory = self._limits.memory_bytes
        seconds = int(self._limits.time_s) + 10
        with suppress(ProcessLookupError):
            resource.prlimit(child.pid, resource.RLIMIT_AS, (memory, memory))
            resource.prlimit(child.pid, resource.RLIMIT_CPU, (seconds, seconds))
            resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 0))


async def _exchanged(child: Child, question: bytes) -> bytes:
    """Sends the question and returns all that the process writes, once it has ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(question)
    with suppress(ConnectionError):
        await child.stdin.drain()
    child.stdin.close()
    output = await child.stdout.read()
    await child.wait()
    return output
