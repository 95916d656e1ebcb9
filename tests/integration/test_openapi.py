"""The OpenAPI document, and what it says against a real server and agent."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS

from orchgit.api.access.table import TABLE
from orchgit.api.app import TABLES
from orchgit.api.query_parameters import OF_ALL, OF_ENDPOINT, OF_READS
from orchgit.api.routes import csi_volumes
from tests.support.served_routes import endpoints, read_query_names
from tests.support.server_rig import ServerRig, server_rig

NOT_SENT = (
    # They end or pause the server, wait, or send without an end.
    *("/v1/event/stream", "/v1/agent/monitor", "/v1/agent/pprof/{profile}", "/v1/agent/reload"),
    *("/v1/operator/snapshot", "/v1/operator/raft/peer", "/v1/operator/raft/transfer-leadership"),
    *("/v1/agent/join", "/v1/agent/force-leave", "/v1/agent/schedulers/config"),
    *("/v1/operator/scheduler/configuration", "/v1/acl/bootstrap", "/v1/system/gc"),
    "/v1/operator/license",  # no content
    *("/v1/operator/keyring/rotate", "/v1/gitops/source/{name}"),
)
OUR_FAULT = "cannot answer: the server failed"
CONFORMS = ("content_type_conformance", "response_schema_conformance")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("openapi"), with_agent=False) as rig:
        yield rig


@pytest.fixture(scope="module")
def document(rig: ServerRig) -> dict[str, Any]:
    return dict(rig.http.get("/v1/openapi.json").json())


def test_document_describes_every_endpoint(document: dict[str, Any]) -> None:
    paths = {each.path.replace(":path}", "}") for table in TABLES for each in table}
    assert paths <= set(document["paths"])
    assert {"/v1/client/fs/logs/{alloc_id}", "/v1/client/stats"} <= set(document["paths"])
    assert document["openapi"].startswith("3.1")
    assert document["components"]["schemas"]["Job"]["properties"]["TaskGroups"]


def test_document_names_every_query_parameter_that_a_route_reads() -> None:
    read = {module: set(read_query_names(module)) for _, _, module in endpoints()}
    told: dict[ModuleType, set[str]] = {module: set() for module in read}
    for path, methods, module in endpoints():
        for method in methods:
            told[module] |= {each.name for each in OF_ENDPOINT.get((path, method), ())}
    told[csi_volumes] |= {each.name for each in OF_ENDPOINT["/v1/volumes", "GET"]}  # it lists some
    common = {each.name for each in (*OF_ALL, *OF_READS)}
    missing = {module.__name__: names - told[module] - common for module, names in read.items()}
    assert {name: names for name, names in missing.items() if names} == {}


def test_document_names_no_parameter_of_an_endpoint_that_is_not_there() -> None:
    known = {(path, method) for path, methods, _ in endpoints() for method in methods}
    known.add(("/v1/metrics", "GET"))  # made with the app
    of_agents = {path for path in TABLE.paths if path.startswith("/v1/client/")}
    assert {each for each in OF_ENDPOINT if each[0] not in of_agents} <= known
    assert all(TABLE.rule(*each) for each in OF_ENDPOINT)


def test_every_reference_of_the_document_leads_to_a_schema(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    names = {ref.rpartition("/")[2] for ref in _references(document)}
    assert names <= set(schemas)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(ref := value.get("$ref"), str):
            yield ref
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def test_a_few_requests_of_each_read_are_answered_as_described(
    rig: ServerRig, document: dict[str, Any]
) -> None:
    sent(rig, document, ("GET",), examples=1, every=4)


@pytest.mark.long
def test_requests_of_every_operation_never_make_the_server_fail(
    rig: ServerRig, document: dict[str, Any]
) -> None:
    sent(rig, document, ("GET", "PUT", "DELETE"), examples=20)


def sent(
    rig: ServerRig,
    document: dict[str, Any],
    methods: tuple[str, ...],
    examples: int,
    every: int = 1,
) -> None:
    """Sends generated requests of every (fourth ...) operation; an answer that is not as described
    fails."""
    schema = schemathesis.openapi.from_dict(document)
    checks = [CHECKS.get_one(name) for name in CONFORMS]
    for result in list(schema.get_all_operations())[::every]:
        operation = result.ok()
        if operation.path in NOT_SENT or operation.method.upper() not in methods:
            continue

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        )
        @given(case=operation.as_strategy())
        def send(case: schemathesis.Case) -> None:
            for name in ("index", "wait", "region"):
                case.query.pop(name, None)
            answer = case.call(base_url=str(rig.http.base_url), timeout=20)
            assert OUR_FAULT not in answer.text, f"{case.as_curl_command()}: {answer.text}"
            if case.method == "GET":  # writes may answer nothing
                case.validate_response(answer, checks=checks)

        send()
