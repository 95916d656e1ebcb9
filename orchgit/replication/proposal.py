"""What a request that writes tells the log, and learns of it."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.model.author import Author


@dataclass(slots=True)
class RequestWrites:
    """`any`: whether the log holds, or may hold, a command that was proposed for one request. While
    it holds none, another server can answer the request instead. `author`: whose token the request
    bears; it is recorded with what the request changes."""

    any: bool = False
    author: Author | None = None
