"""Parameters of a query string: of those with the same name the first counts, as in Go.

All who read a request must agree on this: what decides about it, what answers it, on whichever
server or agent, and what logs it.
"""

from __future__ import annotations

from urllib.parse import parse_qsl


def first_values(query_string: bytes | str) -> dict[str, str]:
    """Returns the first value of each parameter, in their order."""
    text = query_string if isinstance(query_string, str) else query_string.decode("latin-1")
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, value)
    return found
