"""Autopilot's rules: it helps, and it never takes away what the cluster needs to go on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.control.watchers.autopilot_rules import (
    SAFE_VOTERS,
    ServerStability,
    ServerView,
    failure_tolerance,
    is_dead,
    is_healthy,
    promotions,
    removals,
    standings,
)
from orchgit.model.operator import AutopilotConfig

CONFIG = AutopilotConfig()
DEAD_AFTER_S = 30.0


def server(name: str, voter: bool = True, silent_s: float = 0.0, behind: int = 0) -> ServerView:
    return ServerView(name, voter, name == "leader", silent_s, behind)


def long_known(
    servers: list[ServerView], config: AutopilotConfig = CONFIG
) -> dict[str, ServerStability]:
    return standings({}, servers, config, 0.0)


def removed(servers: list[ServerView], config: AutopilotConfig = CONFIG) -> list[str]:
    return removals(servers, long_known(servers), config, DEAD_AFTER_S, 1000.0)


def cluster(alive: int, dead: int) -> list[ServerView]:
    return [
        server("leader"),
        *(server(f"alive-{n}") for n in range(alive - 1)),
        *(server(f"dead-{n}", silent_s=60.0) for n in range(dead)),
    ]


@pytest.mark.parametrize(
    ("alive", "dead", "removes"),
    [
        (1, 0, 0),
        (2, 1, 0),  # two could not lose one either: it may come back
        (3, 1, 1),  # its replacement is there
        (2, 2, 0),  # no majority lives
        (3, 2, 2),
        (4, 1, 1),
        (3, 4, 0),
        (4, 3, 3),
    ],
)
def test_dead_servers_are_removed_while_a_majority_stays(
    alive: int, dead: int, removes: int
) -> None:
    assert len(removed(cluster(alive, dead))) == removes


def test_dead_learners_are_always_removed() -> None:
    assert removed([server("leader"), server("l", voter=False, silent_s=60.0)]) == ["l"]


def test_min_quorum_limits_removals_and_disabled_cleanup_prevents_them() -> None:
    assert removed(cluster(3, 2), AutopilotConfig(min_quorum=4)) == ["dead-0"]
    assert removed(cluster(3, 2), AutopilotConfig(cleanup_dead_servers=False)) == []


def test_new_leader_takes_silent_servers_for_dead_only_after_the_limit() -> None:
    """It has heard of nobody yet, however long its progress says that they are silent."""
    servers = [server("leader"), *(server(n, silent_s=float("inf")) for n in ("a", "b", "c"))]
    known = standings({}, servers, CONFIG, 100.0)
    assert not is_dead(servers[1], known["a"], DEAD_AFTER_S, 129.9)
    assert is_dead(servers[1], known["a"], DEAD_AFTER_S, 130.0)


def test_learner_is_promoted_after_the_stabilization_time() -> None:
    servers = [*cluster(3, 0), server("new", voter=False)]
    known = standings({}, servers, CONFIG, 0.0)
    assert promotions(servers, known, CONFIG, 3, 9.9) == []
    assert promotions(servers, known, CONFIG, 3, 10.0) == ["new"]
    behind = [*servers[:-1], server("new", voter=False, behind=251)]
    known = standings(known, behind, CONFIG, 11.0)
    assert promotions(behind, known, CONFIG, 3, 30.0) == []
    known = standings(known, servers, CONFIG, 31.0)
    assert promotions(servers, known, CONFIG, 3, 40.0) == [], "it began anew"
    assert promotions(servers, known, CONFIG, 3, 41.0) == ["new"]


def test_short_silence_does_not_restart_the_stabilization_time() -> None:
    late = [server("leader"), server("new", voter=False, silent_s=0.9)]
    known = standings({}, late, CONFIG, 0.0)
    assert not is_healthy(late[1], CONFIG)
    assert promotions(late, known, CONFIG, 0, 10.0) == ["new"]
    silent = [server("leader"), server("new", voter=False, silent_s=1.1)]
    assert promotions(silent, standings(known, silent, CONFIG, 10.0), CONFIG, 0, 30.0) == []


def test_forming_cluster_promotes_without_stabilization_time() -> None:
    servers = [server("leader"), server("b", voter=False), server("c", voter=False, behind=9999)]
    known = standings({}, servers, CONFIG, 0.0)
    assert promotions(servers, known, CONFIG, 3, 0.0) == ["b"]


def test_failure_tolerance_counts_healthy_voters() -> None:
    for servers, tolerated in ((cluster(3, 0), 1), (cluster(2, 1), 0), (cluster(5, 0), 2)):
        assert failure_tolerance(servers, long_known(servers)) == tolerated


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[ServerView], dict[str, ServerStability], AutopilotConfig]:
    servers = [server("leader", voter=draw(st.booleans()))] + [
        server(
            f"s{n}",
            draw(st.booleans()),
            draw(st.sampled_from([0.0, 0.1, 5.0, 29.9, 30.0, 1e9, float("inf")])),
            draw(st.integers(0, 1000)),
        )
        for n in range(draw(st.integers(0, 8)))
    ]
    config = AutopilotConfig(min_quorum=draw(st.integers(0, 6)))
    known = {
        one.address: ServerStability(
            draw(st.booleans()), *sorted((draw(st.floats(0, 100)), draw(st.floats(0, 100))))[::-1]
        )
        for one in servers
    }
    return servers, known, config


@settings(max_examples=100)
@given(world=worlds())
def test_every_removal_leaves_a_majority_of_living_voters(
    world: tuple[list[ServerView], dict[str, ServerStability], AutopilotConfig],
) -> None:
    servers, known, config = world
    left = {one.address: one for one in servers}
    for address in removals(servers, known, config, DEAD_AFTER_S, 100.0):
        gone = left.pop(address)
        assert not gone.leads
        assert gone.silent_s >= DEAD_AFTER_S
        if not gone.voter:
            continue
        voters = [one for one in left.values() if one.voter]
        alive = [one for one in voters if one.leads or one.silent_s < DEAD_AFTER_S]
        assert len(voters) >= max(SAFE_VOTERS, config.min_quorum)
        unsure = [one for one in voters if one not in alive and not _dead(one, known)]
        assert 2 * (len(alive) + len(unsure)) > len(voters)


def _dead(one: ServerView, known: dict[str, ServerStability]) -> bool:
    return is_dead(one, known[one.address], DEAD_AFTER_S, 100.0)


@settings(max_examples=100)
@given(world=worlds(), expect=st.integers(0, 5))
def test_only_healthy_learners_get_a_vote(
    world: tuple[list[ServerView], dict[str, ServerStability], AutopilotConfig], expect: int
) -> None:
    servers, known, config = world
    by_address = {one.address: one for one in servers}
    for address in promotions(servers, known, config, expect, 100.0):
        assert not by_address[address].voter
        assert known[address].steady
