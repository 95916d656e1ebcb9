"""Search by prefix and by a part of a name."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.services.search import CONTEXTS, LIMIT, search_fuzzy, search_prefix


async def prefix(call: ApiCall) -> Response:
    body = await call.json()
    with call.context.snapshot() as snapshot:
        found = search_prefix(
            snapshot,
            nomad_json.get(body, "Prefix", ""),
            nomad_json.get(body, "Context", "all"),
            _namespace(call, body),
        )
        index = snapshot.index
    matches = {name: ids[:LIMIT] or None for name, ids in found.items()}
    truncated = {name: len(ids) > LIMIT for name, ids in found.items()}
    return _answer(call, matches, truncated, index)


async def fuzzy(call: ApiCall) -> Response:
    body = await call.json()
    with call.context.snapshot() as snapshot:
        found = search_fuzzy(
            snapshot,
            nomad_json.get(body, "Text", ""),
            nomad_json.get(body, "Context", "all"),
            _namespace(call, body),
        )
        index = snapshot.index
    matches: dict[str, Any] = {name: [] for name in CONTEXTS if name not in ("nodes", "plugins")}
    for name, hits in found.items():
        matches[name] = [
            {"ID": hit.id, "Scope": list(hit.scope)} if hit.scope else {"ID": hit.id}
            for hit in hits[:LIMIT]
        ]
    truncated = {name: len(found.get(name, ())) > LIMIT for name in {*CONTEXTS, *found}}
    return _answer(call, matches, truncated, index)


def _namespace(call: ApiCall, body: dict[str, Any]) -> str | None:
    """Returns the query's namespace, else the body's; an empty one counts as absent."""
    name = call.query.get("namespace") or nomad_json.get(body, "Namespace") or "default"
    return None if name == "*" else str(name)


def _answer(
    call: ApiCall, matches: dict[str, Any], truncated: dict[str, bool], index: int
) -> Response:
    value = {
        "Matches": matches,
        "Truncations": truncated,
    }
    return call.answer_query(value, index)


ENDPOINTS = [
    endpoint("/v1/search", put=prefix),
    endpoint("/v1/search/fuzzy", put=fuzzy),
]
