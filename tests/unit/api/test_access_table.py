"""A route that the access table does not know cannot be served."""

from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from orchgit.acl.rights import compile_rights
from orchgit.acl.rules import readable_rules
from orchgit.api.access.requirements import (
    Anyone,
    ObjectKind,
    OfObject,
    Question,
    RequestNames,
    Rule,
)
from orchgit.api.access.table import TABLE, AccessTable, Row
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


class _Unread(dict[str, str]):
    """Parameters of a request that nothing may ask for."""

    def get(self, *_: object) -> str:  # type: ignore[override]
        raise AssertionError("a decision that is kept asked for a parameter")

    __getitem__ = get


class _NoObjects:
    def namespace_of(self, kind: ObjectKind, object_id: str) -> str | None:
        raise AssertionError("a decision that is kept asked for an object")

    def driver_of(self, alloc_id: str, task: str) -> str:
        raise AssertionError("a decision that is kept asked for an object")


def test_decision_that_is_kept_depends_on_caller_and_namespace_alone() -> None:
    text = 'namespace "default" { policy = "read" }\nnode { policy = "read" }'
    rules = readable_rules(text)
    assert rules is not None
    names = RequestNames("default", _Unread(), _Unread())
    methods = ("GET", "PUT", "DELETE", "WEBSOCKET")
    every = [rule for path in TABLE.paths for name in methods if (rule := TABLE.rule(path, name))]
    kept = [rule for rule in every if rule.is_by_namespace]
    assert 50 < len(kept) < len(every)
    for rights in (compile_rights([rules]), compile_rights([])):
        for rule in kept:
            rule.requirement.allows(Question(rights, names, _NoObjects()))


def test_decision_about_an_object_is_not_kept() -> None:
    assert not Rule(OfObject(ObjectKind.ALLOCATION, "id", ("read-job",))).is_by_namespace
