"""Decides which server may answer a request, by method, path and query. Pure.

Writes and reads go to the leader, unless a read says `stale`. What concerns one server (its agent
API, its metrics) is answered by the server that is asked, or by the one that `server_id` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from orchgit.query_values import first_values

_HERE = (
    "/v1/agent/",
    "/v1/metrics",
    "/v1/status/",
    "/v1/regions",
    "/v1/openapi.json",
    "/v1/jobs/parse",
    "/ui/",
)
"""Paths about this server, or about nothing but the request itself."""
_OF_ONE_SERVER = ("/v1/agent/monitor", "/v1/agent/host", "/v1/agent/pprof/")
"""Paths that another server answers where `server_id` names one."""
_READING_POSTS = ("/v1/search", "/v1/operator/sql")
_SAFE = ("GET", "HEAD")
_NO = ("false", "0", "f", "False", "FALSE", "F")
_PUSH = "git-receive-pack"


class Place(Enum):
    HERE = "here"
    LEADER = "leader"
    CURRENT = "current"
    """The leader, after it made sure that it still leads."""
    SERVER = "server"
    """The server that `server_asked` names."""
    NODE = "node"
    """`/v1/client`: any server that knows where the node is."""
    REPOSITORY = "repository"
    """A clone or fetch: the leader, whose refs are the newest; without one, any server."""


def place_of(method: str, path: str, query: bytes) -> Place:
    if method in _SAFE and path.startswith(_OF_ONE_SERVER) and server_asked(query):
        return Place.SERVER
    if method == "OPTIONS" or path.startswith(_HERE):
        return Place.HERE
    if path.startswith("/v1/client/"):
        return Place.NODE
    if path.startswith("/git/"):
        pushes = path.endswith(_PUSH) or _PUSH.encode() in query
        return Place.LEADER if pushes else Place.REPOSITORY
    if method in _SAFE and not path.startswith(("/v1/", "/.well-known/")):
        return Place.HERE
    reads = method in _SAFE or path.startswith(_READING_POSTS)
    if not reads or (b"stale" not in query and b"consistent" not in query):
        return Place.LEADER
    given = first_values(query)
    if _asked(given, "consistent"):
        return Place.CURRENT
    return Place.HERE if _asked(given, "stale") else Place.LEADER


def server_asked(query: bytes) -> str:
    """Returns the name or id of the server that a query asks for; "" where it names none."""
    return first_values(query).get("server_id", "")


def is_safe(method: str) -> bool:
    """Returns whether asking twice does no more than asking once."""
    return method in _SAFE


def _asked(given: Mapping[str, str], name: str) -> bool:
    return name in given and given[name] not in _NO
