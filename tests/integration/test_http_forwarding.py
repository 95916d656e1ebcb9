"""`/v1/client` of a node that another process runs: forwarded to its agent's HTTP address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchgit.services.nodes.registration import register_node
from tests.support.factories import make_node
from tests.support.server_rig import ServerRig, server_rig


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    """A server and the agent beside it, which answers for its node."""
    with server_rig(tmp_path_factory.mktemp("far"), num_schedulers=0) as rig:
        rig.wait_ready_node()
        yield rig


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    """A server without an agent."""
    path = tmp_path_factory.mktemp("near")
    with server_rig(path, with_agent=False, num_schedulers=0) as rig:
        yield rig


def test_request_for_a_remote_node_is_answered_by_its_agent(
    far: ServerRig, near: ServerRig
) -> None:
    node = make_node(id=far.agent.node_id, http_addr=far.server.http_address)
    near.run(register_node(near.server.services.context, node))
    path = f"/v1/client/stats?node_id={node.id}"
    answer = near.http.get(path)
    assert answer.status_code == 200
    assert set(answer.json()) == set(far.http.get(path).json())
    meta = near.http.post(
        f"/v1/client/metadata?node_id={node.id}", json={"NodeID": node.id, "Meta": {"a": "b"}}
    )
    assert meta.status_code == 200
    assert far.http.get(f"/v1/client/metadata?node_id={node.id}").json()["Dynamic"] == {"a": "b"}


def test_request_for_a_silent_remote_node_is_unavailable(near: ServerRig) -> None:
    node = make_node(http_addr="127.0.0.1:1")
    near.run(register_node(near.server.services.context, node))
    answer = near.http.get(f"/v1/client/stats?node_id={node.id}")
    assert answer.status_code == 503
    assert node.id in answer.text


def test_request_to_a_server_without_an_agent_must_name_its_node(near: ServerRig) -> None:
    assert near.http.get("/v1/client/stats").status_code == 404
