"""Pure rules that decide which servers autopilot promotes and removes, given their states and the
time.

A learner that keeps up becomes a voter once it was stable for a while. A dead server is removed,
because as a voter it makes every further loss weigh more; but never below a number of voters that
survives a loss, and never without a majority of living servers: those that are left must be able to
go on whatever becomes of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchgit.model.base import NS_PER_S
from orchgit.model.operator import AutopilotConfig

HICCUP_S = 1.0
SAFE_VOTERS = 3
"""Voters that are never reduced: a dead one of three stays a member until another one joins."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """A member as the leader sees it: `silent_s` is the time since its last answer (seconds),
    `behind` the number of log entries that it lacks."""

    address: str
    voter: bool
    leads: bool
    silent_s: float
    behind: int


@dataclass(frozen=True, slots=True)
class ServerStability:
    """Whether a server is steady, since when, and since when the leader watches it (monotonic
    seconds)."""

    steady: bool
    since_s: float
    known_since_s: float


def is_healthy(server: ServerView, config: AutopilotConfig) -> bool:
    """Returns whether the server keeps up with the leader at this moment."""
    return _keeps_up(server, config, config.last_contact_threshold_ns / NS_PER_S)


def is_steady(server: ServerView, config: AutopilotConfig) -> bool:
    """Returns whether the server keeps up, ignoring a silence of up to `HICCUP_S`: a busy machine
    may answer late once."""
    return _keeps_up(server, config, max(HICCUP_S, config.last_contact_threshold_ns / NS_PER_S))


def _keeps_up(server: ServerView, config: AutopilotConfig, silent_s: float) -> bool:
    if server.leads:
        return True
    return server.silent_s <= silent_s and server.behind <= config.max_trailing_logs


def standings(
    known: Mapping[str, ServerStability],
    servers: Sequence[ServerView],
    config: AutopilotConfig,
    now_s: float,
) -> dict[str, ServerStability]:
    """Returns the stability of every member, carried on from `known`; servers that left are
    dropped."""
    found = {}
    for server in servers:
        before = known.get(server.address)
        steady = is_steady(server, config)
        if before is None:
            found[server.address] = ServerStability(steady, now_s, now_s)
        elif before.steady == steady:
            found[server.address] = before
        else:
            found[server.address] = ServerStability(steady, now_s, before.known_since_s)
    return found


def promotions(
    servers: Sequence[ServerView],
    standing: Mapping[str, ServerStability],
    config: AutopilotConfig,
    bootstrap_expect: int,
    now_s: float,
) -> list[str]:
    """Returns the addresses of learners to promote: steady for the stabilization time, or steady at
    all while the cluster is forming."""
    forming = sum(server.voter for server in servers) < bootstrap_expect
    wanted_s = 0.0 if forming else config.server_stabilization_time_ns / NS_PER_S
    return [
        server.address
        for server in servers
        if not server.voter
        and standing[server.address].steady
        and now_s - standing[server.address].since_s >= wanted_s
    ]


def is_dead(
    server: ServerView, standing: ServerStability, dead_after_s: float, now_s: float
) -> bool:
    """Returns whether the server was silent for `dead_after_s`. A new leader has not heard from any
    server, so the time that it watches the server limits the silence."""
    watched_s = now_s - standing.known_since_s
    return not server.leads and min(server.silent_s, watched_s) >= dead_after_s


def removals(
    servers: Sequence[ServerView],
    standing: Mapping[str, ServerStability],
    config: AutopilotConfig,
    dead_after_s: float,
    now_s: float,
) -> list[str]:
    """Returns the addresses of dead servers to remove, in the order of removal."""
    if not config.cleanup_dead_servers:
        return []
    dead = [one for one in servers if is_dead(one, standing[one.address], dead_after_s, now_s)]
    voters = sum(server.voter for server in servers)
    dead_voters = [server.address for server in dead if server.voter]
    may_go = voters - max(config.min_quorum, SAFE_VOTERS)
    if 2 * len(dead_voters) >= voters or may_go < 0:
        may_go = 0
    return [one.address for one in dead if not one.voter] + dead_voters[:may_go]


def failure_tolerance(
    servers: Sequence[ServerView], standing: Mapping[str, ServerStability]
) -> int:
    """Returns how many steady voters may fail before the cluster cannot write."""
    voters = [server for server in servers if server.voter]
    steady = sum(standing[server.address].steady for server in voters)
    return max(0, steady - (len(voters) // 2 + 1))
