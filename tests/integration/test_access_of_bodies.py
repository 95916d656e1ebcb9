"""A request may name a namespace in its query and in its body: the right counts where it acts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from orchgit.services.acl.settings import AclSettings
from tests.support.server_rig import server_rig

_TEAM = """namespace "team" {
  policy = "write"
  variables { path "*" { capabilities = ["read", "write", "list", "destroy"] } }
}"""
_NAMES: tuple[str | None, ...] = (None, "", "team", "default", "*")
_TASK = {"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}


@pytest.fixture(scope="module")
def clients(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Clients of management, and of a token that may do everything in namespace team."""
    directory = tmp_path_factory.mktemp("bodies")
    with server_rig(directory, with_agent=False, acl=AclSettings(enabled=True)) as rig:
        management = rig.http
        management.headers["X-Nomad-Token"] = management.put("/v1/acl/bootstrap").json()["SecretID"]
        for path, body in (
            ("/v1/namespace", {"Name": "team"}),
            ("/v1/acl/policy/team", {"Name": "team", "Rules": _TEAM}),
        ):
            answer = management.put(path, json=body)
            assert answer.status_code == 200, answer.text
        token = {"Name": "t", "Type": "client", "Policies": ["team"]}
        secret = management.put("/v1/acl/token", json=token).json()["SecretID"]
        headers = {"X-Nomad-Token": secret}
        with httpx.Client(base_url=management.base_url, headers=headers, trust_env=False) as team:
            yield management, team


def queries() -> Iterator[tuple[dict[str, str], str | None, str | None]]:
    """Every mix of a namespace in the query and two spellings of it in the body."""
    for query, first, second in itertools.product(_NAMES, _NAMES, _NAMES):
        yield {} if query is None else {"namespace": query}, first, second


def with_names(body: dict[str, Any], first: str | None, second: str | None) -> dict[str, Any]:
    names = {"Namespace": first, "namespace": second}
    return {**body, **{key: value for key, value in names.items() if value is not None}}


def test_variables_are_written_only_where_the_token_may_write(
    clients: tuple[httpx.Client, httpx.Client],
) -> None:
    management, team = clients
    written = 0
    for number, (query, first, second) in enumerate(queries()):
        body = with_names({"Items": {"k": "v"}}, first, second)
        answer = team.put(f"/v1/var/p{number}", params=query, json=body)
        written += answer.status_code == 200
    listed = management.get("/v1/vars", params={"namespace": "*"}).json()
    found = [each for each in listed if each["Path"].startswith("p")]
    assert {each["Namespace"] for each in found} == {"team"}
    assert len(found) == written


def test_jobs_are_registered_only_where_the_token_may_submit(
    clients: tuple[httpx.Client, httpx.Client],
) -> None:
    management, team = clients
    registered = 0
    for number, (query, first, second) in enumerate(queries()):
        groups = [{"Name": "g", "Count": 1, "Tasks": [_TASK]}]
        job = with_names({"ID": f"j{number}", "Type": "batch", "TaskGroups": groups}, first, second)
        for path in ("/v1/jobs", f"/v1/job/j{number}"):
            answer = team.put(path, params=query, json={"Job": job, "Namespace": second})
            registered += answer.status_code == 200 and path == "/v1/jobs"
    found = management.get("/v1/jobs", params={"namespace": "*"}).json()
    assert {each["Namespace"] for each in found} == {"team"}
    assert len(found) == registered


def test_search_and_volumes_take_no_other_namespace_from_the_body(
    clients: tuple[httpx.Client, httpx.Client],
) -> None:
    management, team = clients
    body = {"Items": {"k": "v"}}
    assert management.put("/v1/var/hidden", json=body).status_code == 200
    for query, first, second in queries():
        wanted = with_names({"Prefix": "hidden", "Context": "vars"}, first, second)
        answer = team.put("/v1/search", params=query, json=wanted)
        assert "hidden" not in answer.text
        volume = with_names({"Name": "v", "PluginID": "mkdir"}, first, second)
        answer = team.put("/v1/volume/host/create", params=query, json={"Volume": volume})
        acts_elsewhere = query.get("namespace") == "default" or (
            not query.get("namespace") and (second or first or "default") != "team"
        )
        if acts_elsewhere and "*" not in (first, second):
            assert answer.status_code == 403, (query, first, second, answer.text)
