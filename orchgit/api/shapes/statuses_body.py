"""The body of a request for the statuses of named jobs."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.api.call import ApiCall
from orchgit.api.shapes import go_json
from orchgit.errors import InvalidInputError

_NAMED = go_json.Fields("api.NamespacedID", {"ID": go_json.text, "Namespace": go_json.text})
_STATUSES = go_json.Fields(
    "api.JobStatusesRequest", {"Jobs": go_json.structs(_NAMED), "IncludeChildren": go_json.flag}
)


@dataclass(frozen=True, slots=True)
class StatusesBody:
    """`namespace` decides who may ask, and holds what is answered: that of all jobs where they have
    one, else the query's, which is `*` at first."""

    keys: tuple[tuple[str, str], ...]
    namespace: str
    with_children: bool


async def read_statuses_body(call: ApiCall) -> StatusesBody | None:
    """Returns what a request names; None for one without a body, which asks as GET does. Raises
    InvalidInputError."""
    return await call.once(_read)


async def _read(call: ApiCall) -> StatusesBody | None:
    data = await call.body()
    if not data:
        return None
    try:
        fields = go_json.decode_body(data, _STATUSES)
    except InvalidInputError as error:
        raise InvalidInputError(f"error decoding request: {error}") from error
    jobs = fields.get("Jobs") or []
    keys = tuple((each.get("Namespace") or "default", each.get("ID", "")) for each in jobs)
    if not keys:
        raise InvalidInputError("no jobs in request")
    named = {namespace for namespace, _ in keys}
    chosen = call.query.get("namespace") or "default"
    asked = "*" if chosen == "default" else chosen
    return StatusesBody(
        keys,
        named.pop() if len(named) == 1 else asked,
        fields.get("IncludeChildren", False) or call.flag("include_children"),
    )
