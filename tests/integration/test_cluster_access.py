"""Three servers with access control: a token counts, and stops to count, on all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchgit.api.ui.routes import COOKIE
from tests.support.dev_server import git
from tests.support.polling import until_blocking
from tests.support.quickest import quickest_s
from tests.support.server_cluster import MemberServer, ServerCluster, server_cluster

_REVOKED_WITHIN_S = 1.0
_MODES: tuple[dict[str, str], ...] = ({}, {"stale": ""})
"""Answered by the leader, and by the server itself."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with server_cluster(tmp_path_factory.mktemp("access"), acl=True) as running:
        answer = running.members[0].http.put("/v1/acl/bootstrap")
        assert answer.status_code == 200, answer.text
        for member in running.members:
            member.http.headers["X-Nomad-Token"] = answer.json()["SecretID"]
        rules = 'namespace "default" { policy = "read" }'
        running.members[0].put("/v1/acl/policy/reader", {"Name": "reader", "Rules": rules})
        yield running


def make_token(member: MemberServer) -> tuple[str, str]:
    """Returns (accessor id, secret) of a new token that may read jobs."""
    body = {"Name": "r", "Type": "client", "Policies": ["reader"]}
    answer = member.put("/v1/acl/token", body)
    return answer["AccessorID"], answer["SecretID"]


def statuses(cluster: ServerCluster, secret: str) -> list[int]:
    """Returns what each running server answers the token, in both modes."""
    return [
        member.http.get("/v1/jobs", params=mode, headers={"X-Nomad-Token": secret}).status_code
        for member in cluster.alive
        for mode in _MODES
    ]


def answered(cluster: ServerCluster, secret: str, status: int) -> bool:
    """Returns whether every running server answers the token so, in both modes."""
    return set(statuses(cluster, secret)) == {status}


def test_request_without_a_token_is_refused_by_every_server(cluster: ServerCluster) -> None:
    assert set(statuses(cluster, "")) == {403}


def test_revoked_token_is_refused_by_every_server_within_a_second(cluster: ServerCluster) -> None:
    def revoked_s(revoking: MemberServer) -> float:
        accessor, secret = make_token(revoking)
        until_blocking(partial(answered, cluster, secret, 200))
        answer = revoking.http.delete(f"/v1/acl/token/{accessor}")
        assert answer.status_code == 200, answer.text
        began_s = time.monotonic()
        until_blocking(partial(answered, cluster, secret, 403))
        return time.monotonic() - began_s

    for each in cluster.members:
        assert quickest_s(partial(revoked_s, each), _REVOKED_WITHIN_S) < _REVOKED_WITHIN_S


def test_policy_without_the_right_any_more_ends_it_on_every_server(cluster: ServerCluster) -> None:
    member = cluster.members[1]
    rules = 'namespace "default" { policy = "read" }'

    def refused_s() -> float:
        member.put("/v1/acl/policy/passing", {"Name": "passing", "Rules": rules})
        body = {"Name": "p", "Type": "client", "Policies": ["passing"]}
        secret = member.put("/v1/acl/token", body)["SecretID"]
        until_blocking(partial(answered, cluster, secret, 200))
        member.http.delete("/v1/acl/policy/passing")
        began_s = time.monotonic()
        until_blocking(partial(answered, cluster, secret, 403))
        return time.monotonic() - began_s

    assert quickest_s(refused_s, _REVOKED_WITHIN_S) < _REVOKED_WITHIN_S


@pytest.mark.parametrize("page", ["/ui/jobs", "/ui/sources", "/ui/rollouts"])
def test_page_of_any_server_is_shown_and_leaves_the_server_answering(
    cluster: ServerCluster, page: str
) -> None:
    for member in cluster.members:
        token = member.http.headers["X-Nomad-Token"]
        shown = httpx.get(
            f"{member.url}{page}",
            headers={"Cookie": f"{COOKIE}={token}"},
            timeout=30.0,
            trust_env=False,
        )
        assert shown.status_code == 200, shown.text
        assert "Log out" in shown.text
        assert member.http.get("/v1/status/leader").status_code == 200


def test_stream_of_a_revoked_token_ends(cluster: ServerCluster) -> None:
    follower = cluster.followers()[0]
    query: dict[str, Any] = {"topic": "Job", "stale": ""}

    def ended_s() -> float:
        accessor, secret = make_token(follower)
        until_blocking(partial(answered, cluster, secret, 200))
        with httpx.stream(
            "GET",
            f"{follower.url}/v1/event/stream",
            params=query,
            headers={"X-Nomad-Token": secret},
            timeout=60.0,
            trust_env=False,
        ) as stream:
            chunks = stream.iter_raw()
            assert next(chunks).startswith(b"{}")
            follower.http.delete(f"/v1/acl/token/{accessor}")
            began_s = time.monotonic()
            for _ in chunks:
                pass
            return time.monotonic() - began_s

    assert quickest_s(ended_s, _REVOKED_WITHIN_S) < _REVOKED_WITHIN_S


def test_blocking_query_of_a_revoked_token_is_refused_when_it_wakes(cluster: ServerCluster) -> None:
    leader = cluster.leader()
    accessor, secret = make_token(leader)
    headers = {"X-Nomad-Token": secret}
    index = leader.http.get("/v1/jobs", headers=headers).headers["X-Nomad-Index"]
    statuses: list[int] = []
    query = {"index": index, "wait": "5m"}

    def ask() -> None:
        answer = httpx.get(
            f"{leader.url}/v1/jobs", params=query, headers=headers, timeout=400.0, trust_env=False
        )
        statuses.append(answer.status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    leader.http.delete(f"/v1/acl/token/{accessor}")
    task = {"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}
    group = {"Name": "g", "Count": 1, "Tasks": [task]}
    leader.put("/v1/jobs", {"Job": {"ID": "waking", "Type": "batch", "TaskGroups": [group]}})
    asking.join(100)
    assert statuses == [403]


def test_tokens_stay_as_they_were_when_the_leader_is_lost(cluster: ServerCluster) -> None:
    leader = cluster.leader()
    _, kept = make_token(leader)
    accessor, revoked = make_token(leader)
    leader.http.delete(f"/v1/acl/token/{accessor}")
    leader.kill()
    try:
        cluster.leader()
        until_blocking(partial(answered, cluster, kept, 200))
        assert set(statuses(cluster, revoked)) == {403}
    finally:
        leader.start()
        cluster.leader(cluster.members)
    until_blocking(partial(answered, cluster, kept, 200))
    assert set(statuses(cluster, revoked)) == {403}


def test_acknowledged_revocation_holds_on_every_server(cluster: ServerCluster) -> None:
    """The first `stale` read after it is refused, which each server answers by what it has
    applied."""
    for number in range(20):
        revoking = cluster.members[number % 3]
        accessor, secret = make_token(revoking)
        answer = revoking.http.delete(f"/v1/acl/token/{accessor}")
        assert answer.status_code == 200, answer.text
        assert stale_refused(cluster, secret)


def test_revocation_holds_when_the_leader_dies_with_its_answer(cluster: ServerCluster) -> None:
    leader = cluster.leader(cluster.members)
    accessor, secret = make_token(leader)
    answer = leader.http.delete(f"/v1/acl/token/{accessor}")
    leader.kill()
    try:
        assert answer.status_code == 200, answer.text
        assert stale_refused(cluster, secret)
    finally:
        leader.start()
        cluster.leader(cluster.members)


def stale_refused(cluster: ServerCluster, secret: str) -> bool:
    headers = {"X-Nomad-Token": secret}
    asked = [
        each.http.get("/v1/jobs", params={"stale": ""}, headers=headers) for each in cluster.alive
    ]
    return {each.status_code for each in asked} == {403}


def test_push_at_any_server_wants_the_token_and_names_it(
    cluster: ServerCluster, tmp_path: Path
) -> None:
    first = cluster.alive[0]
    rules = 'namespace "default" { policy = "write" gitops { policy = "write" } }'
    first.put("/v1/acl/policy/pusher", {"Name": "pusher", "Rules": rules})
    body = {"Name": "ci", "Type": "client", "Policies": ["pusher"]}
    token = first.put("/v1/acl/token", body)
    first.put("/v1/gitops/source/site", {"Kind": "builtin", "Policies": ["pusher"]})
    git(tmp_path, "init", "-q")
    for number, member in enumerate(cluster.alive):
        address = member.url.removeprefix("http://")
        url = f"http://git:{token['SecretID']}@{address}/git/site.git"
        until_blocking(partial(_may_read, tmp_path, url))
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", f"Commit {number}")
        plain = git(tmp_path, "push", f"{member.url}/git/site.git", "HEAD:main", check=False)
        assert plain.code != 0
        done = git(tmp_path, "push", url, "HEAD:main", check=False)
        assert done.code == 0, done.text
        rollouts = member.http.get("/v1/gitops/rollouts", params={"source": "site"}).json()
        assert rollouts[0]["Pusher"] == "ci"
    authors = first.http.get("/v1/gitops/authors").json()
    of_rollouts = [each["Author"] for each in authors if each["Kind"] == "rollouts"]
    known = {"AccessorID": token["AccessorID"], "Name": "ci"}
    wanted = {**known, "IsClaimed": False, "Address": ""}
    assert of_rollouts == [wanted] * len(cluster.alive)
    first.http.delete(f"/v1/acl/token/{token['AccessorID']}")
    for member in cluster.alive:
        address = member.url.removeprefix("http://")
        url = f"http://git:{token['SecretID']}@{address}/git/site.git"
        until_blocking(lambda url=url: not _may_read(tmp_path, url))


def _may_read(directory: Path, url: str) -> bool:
    return git(directory, "ls-remote", url, check=False).code == 0
