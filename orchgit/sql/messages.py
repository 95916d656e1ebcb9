"""What the server and the process that answers a question tell each other: JSON on two pipes."""

from __future__ import annotations

from typing import Any

import msgspec


class SqlQuestion(msgspec.Struct):
    """`namespaces`: None for all of them; else only rows of these are there. Of the views in
    `without` there are no rows at all."""

    database: str
    query: str
    max_rows: int
    max_bytes: int
    time_s: float
    namespaces: list[str] | None = None
    without: list[str] = []


class SqlAnswer(msgspec.Struct, rename="pascal"):
    """`truncated`: there were more rows than `max_rows`. `index`: of the state that was read."""

    columns: list[str] = []
    rows: list[list[Any]] = []
    truncated: bool = False
    index: int = 0


class SqlRefusal(msgspec.Struct):
    """Why there is no answer."""

    error: str
