"""Every route that reads a JSON body refuses what is none in the same words, and sets nothing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import httpx
import pytest

from orchgit.api import app as api_app
from orchgit.api.routing import Endpoint
from tests.support.server_rig import server_rig

_MAY_BE_EMPTY = frozenset(
    (
        "/v1/job/{job_id:path}/evaluate",
        "/v1/acl/identity/client-introduction-token",
    )
)
"""Requests that mean something without a body; so do those of gitops."""
_FEWEST = 35
"""Fewer routes that read bodies than this mean that the test looks past them."""


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with server_rig(tmp_path_factory.mktemp("bodies"), with_agent=False) as rig:
        yield rig.http


def test_bodies_that_are_no_objects_are_refused_in_gos_words(http: httpx.Client) -> None:
    reads_bodies, strange = 0, []
    for each in itertools.chain.from_iterable(api_app.TABLES):
        assert isinstance(each, Endpoint)
        if "PUT" not in each.methods:
            continue
        path = re.sub(r"\{\w+(:path)?\}", "x", each.path)
        if http.put(path, content=b'{"a"').text != "unexpected EOF":
            continue
        reads_bodies += 1
        answers = {body: http.put(path, content=body) for body in (b"", b" ", b"[]", b'{"a" 1}')}
        said = [answers[body].text for body in answers]
        expected = [
            "Request body is empty",
            "EOF",
            "json: cannot unmarshal array into Go value of type ",
            "invalid character '1' after object key",
        ]
        if each.path in _MAY_BE_EMPTY or each.path.startswith("/v1/gitops/"):
            said, expected = said[2:], expected[2:]
        if not all(text.startswith(start) for text, start in zip(said, expected, strict=True)):
            strange.append((each.path, said))
    assert strange == []
    assert reads_bodies >= _FEWEST


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"Unknown": 1}'])
@pytest.mark.parametrize("what", ["scheduler", "autopilot"])
def test_configuration_of_the_cluster_stays_where_a_body_names_no_setting(
    http: httpx.Client, what: str, body: bytes
) -> None:
    path = f"/v1/operator/{what}/configuration"
    settings = {"SchedulerAlgorithm": "spread", "MinQuorum": 3}
    assert http.put(path, json=settings).status_code == 200
    before = http.get(path).json()
    refused = http.put(path, content=body)
    assert refused.status_code == 400
    assert http.get(path).json() == before


def test_namespace_and_node_pool_stay_where_a_body_is_empty(http: httpx.Client) -> None:
    for path, read in (("/v1/namespace/team", "/v1/namespace/team"), ("/v1/node/pool/gpu",) * 2):
        name = path.rpartition("/")[2]
        kept = {"Name": name, "Description": "kept"}
        assert http.put(path, json=kept).status_code == 200
        assert http.put(path, content=b"").status_code == 400
        assert http.get(read).json()["Description"] == "kept"
