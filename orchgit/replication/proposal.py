"""Whether a request has written anything: then no other server may be asked to do it again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RequestWrites:
    """Whether the log holds, or may hold, a command that was proposed for one request. While it
    holds none, another server can answer the request instead."""

    any: bool = False
