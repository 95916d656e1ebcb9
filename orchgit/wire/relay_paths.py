"""Which requests for the HTTP API an agent that runs no server passes on to the servers."""

from __future__ import annotations

_OF_SERVERS = ("/v1/", "/.well-known/")


def is_of_servers(path: str) -> bool:
    return path.startswith(_OF_SERVERS)
