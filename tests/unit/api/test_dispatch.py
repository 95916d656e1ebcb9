"""Which endpoint answers a path."""

from __future__ import annotations

import re

from starlette.responses import Response
from starlette.routing import compile_path

from orchgit.api.app import TABLES
from orchgit.api.call import ApiCall
from orchgit.api.dispatch import Dispatch
from orchgit.api.request_metrics import RequestMetrics
from orchgit.api.routing import Endpoint, endpoint


async def nothing(call: ApiCall) -> Response:
    return Response()


def dispatch(endpoints: list[Endpoint]) -> Dispatch:
    return Dispatch(endpoints, None, RequestMetrics(), nothing)  # type: ignore[arg-type]


def test_first_of_several_matches_counts() -> None:
    app = dispatch(
        [endpoint(path, get=nothing) for path in ("/v1/job/{id:path}/plan", "/v1/job/{id:path}")]
    )
    for path, pattern, found in (
        ("/v1/job/a/plan", "/v1/job/{id:path}/plan", "a"),
        ("/v1/job/a/b/plan", "/v1/job/{id:path}/plan", "a/b"),
        ("/v1/job/a/plans", "/v1/job/{id:path}", "a/plans"),
    ):
        each, parameters = app.find(path) or (None, {})
        assert each is not None
        assert (each.path, parameters) == (pattern, {"id": found})


def test_a_part_does_not_match_two() -> None:
    app = dispatch([endpoint("/v1/node/{id}", get=nothing)])
    assert app.find("/v1/node/a/b") is None
    assert app.find("/v1/nodes") is None
    assert app.find("/v1") is None
    assert app.find("") is None


def test_every_endpoint_of_the_api_is_found_as_if_each_were_tried_in_turn() -> None:
    endpoints = [each for table in TABLES for each in table]
    app = dispatch(endpoints)
    for each in endpoints:
        path = re.sub(r"\{[^}]*\}", "x", each.path)
        found = app.find(path)
        assert found is not None
        in_turn = next(one for one in endpoints if compile_path(one.path)[0].match(path))
        assert found[0] is in_turn
