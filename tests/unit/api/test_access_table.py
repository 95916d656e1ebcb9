"""A route that the access table does not know cannot be served."""

from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from orchgit.api.access.requirements import Anyone
from orchgit.api.access.table import AccessTable, Row
from orchgit.api.app import TABLES, check_entries
from orchgit.api.call import ApiCall
from orchgit.api.routing import endpoint
from orchgit.errors import InvariantError


async def nothing(call: ApiCall) -> Response:
    return Response()


async def nothing_here(request: Request) -> Response:
    return Response()


def test_every_endpoint_of_the_api_has_an_entry() -> None:
    check_entries([each for table in TABLES for each in table])


def test_endpoint_without_an_entry_is_refused_by_name() -> None:
    with pytest.raises(InvariantError, match="PUT /v1/jobs/new"):
        check_entries([endpoint("/v1/jobs/new", put=nothing)])


def test_new_method_of_a_known_path_is_refused() -> None:
    with pytest.raises(InvariantError, match="DELETE /v1/jobs"):
        check_entries([endpoint("/v1/jobs", delete=nothing)])


def test_extra_route_without_an_entry_is_refused() -> None:
    with pytest.raises(InvariantError, match="GET /extra"):
        check_entries([], [Route("/extra", nothing_here)])
    with pytest.raises(InvariantError, match="cannot guard"):
        check_entries([], [Mount("/extra", nothing_here)])


def test_head_is_get_and_post_is_put() -> None:
    table = AccessTable([Row("/a", get=Anyone("why"))])
    assert table.rule("/a", "HEAD") is table.rule("/a", "GET")
    assert table.rule("/a", "POST") is None


def test_table_with_two_rows_for_a_path_is_refused() -> None:
    with pytest.raises(ValueError, match="two rows"):
        AccessTable([Row("/a"), Row("/a")])
