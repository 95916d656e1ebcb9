"""Search by prefix and by a part of a name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.responses import Response

from orchgit.acl.capabilities import LIST, READ
from orchgit.acl.rights import ALL_NAMESPACES, Rights
from orchgit.api.access.requirements import may_search
from orchgit.api.call import ApiCall
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json
from orchgit.services.search import (
    UNLIMITED,
    Found,
    FuzzyMatch,
    SearchScope,
    search_fuzzy,
    search_prefix,
)
from orchgit.state.snapshot import Snapshot

T = TypeVar("T")

_CONTEXT = go_json.text_type("structs.Context")
_NAMESPACE = go_json.embedded("QueryOptions", go_json.text)
_PREFIX = go_json.Fields(
    "structs.SearchRequest",
    {"Prefix": go_json.text, "Context": _CONTEXT, "Namespace": _NAMESPACE},
)
_FUZZY = go_json.Fields(
    "structs.FuzzySearchRequest",
    {"Text": go_json.text, "Context": _CONTEXT, "Namespace": _NAMESPACE},
)


async def prefix(call: ApiCall) -> Response:
    body = await call.fields(_PREFIX)
    namespace = _namespace(call, body)
    scope = _scope(call, namespace)
    text, kind = body.get("Prefix", ""), body.get("Context", "")

    def read(snapshot: Snapshot) -> Found[str]:
        return search_prefix(snapshot, text, kind, namespace, scope)

    found = await _read(call, read)
    return _answer(call, {name: ids or None for name, ids in found.matches.items()}, found)


async def fuzzy(call: ApiCall) -> Response:
    body = await call.fields(_FUZZY)
    namespace = _namespace(call, body)
    limits, scope = call.services.search, _scope(call, namespace)
    text, kind = body.get("Text", ""), body.get("Context", "")

    def read(snapshot: Snapshot) -> Found[FuzzyMatch]:
        return search_fuzzy(snapshot, text, kind, namespace, scope, limits)

    found = await _read(call, read)
    matches = {
        name: [
            {"ID": hit.id, "Scope": list(hit.scope)} if hit.scope else {"ID": hit.id}
            for hit in hits
        ]
        for name, hits in found.matches.items()
    }
    return _answer(call, matches, found)


async def _read(call: ApiCall, read: Callable[[Snapshot], T]) -> T:
    """Searches in a thread: a search may look at every object."""

    def read_now() -> T:
        with call.context.snapshot() as snapshot:
            return read(snapshot)

    return await asyncio.to_thread(read_now)


@dataclass(frozen=True, slots=True)
class _CallersScope:
    """What the rights of a caller let a search find."""

    rights: Rights
    namespace: str

    def may_search(self, kind: str) -> bool:
        return may_search(self.rights, self.namespace, kind)

    def sees(self, kind: str, namespace: str, name: str) -> bool:
        match kind:
            case "nodes" | "plugins":
                return True
            case "node_pools":
                return self.rights.allows_node_pool(name, READ)
            case "namespaces":
                return self.rights.sees_namespace(name)
            case "vars":
                return self.rights.allows_variable(namespace, name, LIST)
        return may_search(self.rights, namespace, kind)


def _scope(call: ApiCall, namespace: str | None) -> SearchScope:
    if call.sees_everything:
        return UNLIMITED
    return _CallersScope(call.rights, namespace or ALL_NAMESPACES)


def _namespace(call: ApiCall, body: dict[str, Any]) -> str | None:
    """Returns the query's namespace, else the body's; an empty one counts as absent."""
    name = call.query.get("namespace") or body.get("Namespace") or "default"
    return None if name == "*" else str(name)


def _answer(call: ApiCall, matches: dict[str, Any], found: Found[Any]) -> Response:
    value = {"Matches": matches, "Truncations": found.truncated}
    response = call.answer_query(value, found.index)
    response.headers["X-Nomad-Index"] = str(found.index)  # 0 where nothing ever was
    return response


ENDPOINTS = [
    endpoint("/v1/search", put=prefix),
    endpoint("/v1/search/fuzzy", put=fuzzy),
]
