"""Questions in SQL about the cluster."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError
from orchgit.model.base import Model


class SqlRequest(Model):
    """`max_rows` None: as many as the server's limit allows; `namespaces` None: all of them."""

    query: str = ""
    max_rows: int | None = None
    namespaces: list[str] | None = None


async def ask(call: ApiCall) -> Response:
    request = nomad_json.decode(await call.body(), SqlRequest)
    if not request.query.strip():
        raise InvalidInputError(
            "cannot answer without a question: the body's Query is a SELECT; GET lists the tables"
        )
    namespaces, without = request.namespaces, [] if call.sees_nodes else ["nodes"]
    if not call.sees_everything:
        with call.context.snapshot() as snapshot:
            visible = [each.name for each in snapshot.namespaces.all() if call.sees(each.name)]
        chosen = visible if namespaces is None else namespaces
        namespaces = [name for name in chosen if name in visible]
    answer = await call.api.sql.ask(request.query, request.max_rows, namespaces, without)
    return call.answer(answer, index=answer.index)


async def schema(call: ApiCall) -> Response:
    return call.answer(call.api.sql.schema())


ENDPOINTS = [endpoint("/v1/operator/sql", get=schema, put=ask)]
