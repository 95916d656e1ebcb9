"""Servers that find each other, in any order of messages, become one cluster and never two."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import InvalidInputError
from orchgit.server.membership.joining_rules import (
    FRESH_S,
    Bootstrap,
    Join,
    KnownServers,
    Wait,
    decide,
    rpc_address_of,
)
from orchgit.wire.messages import ServerStatus


def status(id_: str, expect: int = 3, **fields: object) -> ServerStatus:
    own = {"name": f"server-{id_}", "rpc_address": f"{id_}:4647", "region": "global", **fields}
    return ServerStatus(id=id_, bootstrap_expect=expect, **own)  # type: ignore[arg-type]


def knowing(own: ServerStatus, *others: ServerStatus) -> KnownServers:
    found = KnownServers(own)
    for other in others:
        found.hear(other, 0.0)
    return found


ALL = ["a", "b", "c"]


def test_too_few_servers_wait_and_say_for_how_many() -> None:
    decision = knowing(status("a"), status("b")).decide(0.0, True)
    assert decision == Wait("waiting for 1 more server, know: server-b (b:4647)")
    decision = knowing(status("a")).decide(0.0, True)
    assert decision == Wait("waiting for 2 more servers, know: nobody yet")


def test_smallest_id_forms_the_cluster_when_all_know_the_same() -> None:
    b, c = status("b", sees=ALL), status("c", sees=ALL)
    assert knowing(status("a"), b, c).decide(0.0, True) == Bootstrap(("a", "b", "c"))
    waits = knowing(status("b"), status("a", sees=ALL), c).decide(0.0, True)
    assert waits == Wait("waiting for server-a to form the cluster")


def test_server_waits_for_another_that_sees_a_different_set() -> None:
    decision = knowing(status("a"), status("b", sees=ALL), status("c", sees=["b", "c"]))
    assert "server-c (c:4647) to know the same" in str(decision.decide(0.0, True))


def test_server_joins_a_member_whatever_else_it_knows() -> None:
    known = knowing(status("a"), status("b", sees=ALL), status("c", member=True))
    assert known.decide(0.0, True) == Join(("c:4647",))
    assert knowing(status("a", 0), status("c", 0, member=True)).decide(0.0, True) == Join(
        ("c:4647",)
    )


def test_members_of_two_clusters_are_a_mistake_to_be_told() -> None:
    one = status("b", member=True, cluster_id="x")
    other = status("c", member=True, cluster_id="y")
    decision = knowing(status("a"), one, other).decide(0.0, True)
    assert "belong to different clusters: server-b (b:4647), server-c" in str(decision)


def test_without_bootstrap_expect_a_member_is_waited_for() -> None:
    decision = knowing(status("a", 0), status("b", 0)).decide(0.0, True)
    assert "waiting for a member of the cluster; know: server-b" in str(decision)


def test_server_that_was_a_member_once_forms_no_other_cluster() -> None:
    known = knowing(status("a"), status("b", sees=ALL), status("c", sees=ALL))
    assert isinstance(known.decide(0.0, may_bootstrap=False), Wait)


def test_different_bootstrap_expect_is_reported() -> None:
    decision = knowing(status("a"), status("b", 5)).decide(0.0, True)
    assert "bootstrap_expect is 3 here, but server-b has 5" in str(decision)


def test_old_status_does_not_count() -> None:
    known = knowing(status("a"), status("b", sees=ALL), status("c", sees=ALL))
    assert isinstance(known.decide(FRESH_S + 0.1, True), Wait)


def test_server_that_began_anew_takes_the_place_of_the_old_one() -> None:
    known = knowing(status("a"), status("old", rpc_address="x:1"), status("new", rpc_address="x:1"))
    assert known.own_status(0.0, False).sees == ["a", "new"]


def test_servers_of_other_regions_form_no_cluster() -> None:
    assert knowing(status("a"), status("b", region="eu")).fresh(0.0) == {}


class SimulatedServers:
    """Servers on a network that delays, reorders and loses, and that may be started again."""

    def __init__(self, count: int, rng: random.Random) -> None:
        self.rng = rng
        self.names = [f"{rng.randrange(10**6):06}-{n}" for n in range(count)]
        self.now_s = 0.0
        self.cluster_of: dict[str, str] = {}
        self.founded: set[str] = set()
        self.servers = {name: self.new(name) for name in self.names}
        self.flying: list[tuple[str, str, ServerStatus]] = []

    def new(self, name: str) -> KnownServers:
        return KnownServers(status(name, len(self.names)))

    def say(self, name: str) -> ServerStatus:
        said = self.servers[name].own_status(self.now_s, name in self.cluster_of)
        return ServerStatus(*(getattr(said, field) for field in said.__struct_fields__))

    def step(self) -> None:
        one, two = self.rng.choice(self.names), self.rng.choice(self.names)
        kind = self.rng.random()
        if kind < 0.4:
            self.flying.append((one, two, self.say(one)))
        elif kind < 0.75 and self.flying:
            self.deliver(self.flying.pop(self.rng.randrange(len(self.flying))))
        elif kind < 0.8 and self.flying:
            self.flying.pop(self.rng.randrange(len(self.flying)))
        elif kind < 0.95:
            self.act(one)
        elif kind < 0.97:
            self.servers[one] = self.new(one)
        else:
            self.now_s += self.rng.random() * 6

    def deliver(self, message: tuple[str, str, ServerStatus]) -> None:
        _, receiver, said = message
        self.servers[receiver].hear(said, self.now_s)

    def act(self, name: str) -> None:
        if name in self.cluster_of:
            return
        decision = self.servers[name].decide(self.now_s, True)
        if isinstance(decision, Bootstrap):
            self.founded.add(name)
            self.cluster_of[name] = name
        elif isinstance(decision, Join):
            asked = self.rng.choice(decision.members).removesuffix(":4647")
            if asked in self.cluster_of:
                self.cluster_of[name] = self.cluster_of[asked]

    def round(self) -> None:
        """Everybody hears everybody."""
        for sender in self.names:
            for receiver in self.names:
                self.deliver((sender, receiver, self.say(sender)))
        for name in self.names:
            self.act(name)


@settings(max_examples=120)
@given(count=st.integers(2, 5), seed=st.integers(0, 2**32), steps=st.integers(0, 400))
def test_servers_form_exactly_one_cluster(count: int, seed: int, steps: int) -> None:
    servers = SimulatedServers(count, random.Random(seed))
    for _ in range(steps):
        servers.step()
        assert len(servers.founded) <= 1
    for _ in range(4):
        servers.round()
    assert len(servers.founded) == 1
    assert set(servers.cluster_of) == set(servers.names)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1:4647"),
        ("10.0.0.1:4648", "10.0.0.1:4647"),
        ("10.0.0.1:5000", "10.0.0.1:5000"),
        ("server-1.example", "server-1.example:4647"),
        ("fd00::1", "[fd00::1]:4647"),
        ("[fd00::1]:4648", "[fd00::1]:4647"),
        ("[fd00::1]", "[fd00::1]:4647"),
    ],
)
def test_addresses_to_join(text: str, address: str) -> None:
    assert rpc_address_of(text) == address


@pytest.mark.parametrize("text", ["", "provider=aws tag_key=x", "host:", ":4647", "host:99999"])
def test_invalid_address_to_join_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot join"):
        rpc_address_of(text)


def test_servers_of_one_name_form_no_cluster() -> None:
    own = status("a", 2, name="vm")
    other = status("b", 2, name="vm")
    own.sees = other.sees = ["a", "b"]
    decision = decide(own, [other], may_bootstrap=True)
    assert isinstance(decision, Wait)
    assert "have the same name, vm; give each its own" in decision.reason
