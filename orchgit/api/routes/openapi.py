"""`/v1/openapi.json`: what this API takes and answers, for programs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routing import Endpoint, endpoint
from orchgit.api.shapes import nomad_json


def endpoints(described: Sequence[Endpoint]) -> list[Endpoint]:
    """Returns the endpoint that describes these and itself."""
    made: list[bytes] = []

    async def document(call: ApiCall) -> Response:
        if not made:
            made.append(await asyncio.to_thread(_encoded, [*described, own]))
        return call.answer(nomad_json.Raw(made[0]))

    own = endpoint("/v1/openapi.json", get=document)
    return [own]


def _encoded(described: Sequence[Endpoint]) -> bytes:
    from orchgit.api.openapi import document  # takes a moment that a start does without

    return nomad_json.encode(document(described))
