"""What `/v1/agent/self` tells of the agent: its contact to the servers and its allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchgit.clock import SECOND_NS
from orchgit.durations import to_text

if TYPE_CHECKING:
    from agent.agent import Agent

_MS_NS = 1_000_000


def client_stats(agent: Agent) -> dict[str, str]:
    """Returns the values as text, under Nomad's names: none before the agent has started, those of
    heartbeats only once a server took the node up."""
    if not agent.is_started:
        return {}
    found = {
        "known_servers": ",".join(agent.link.servers),
        "num_allocations": str(sum(1 for _ in agent.allocations)),
    }
    times_s = agent.link.heartbeat_times_s()
    if times_s is not None:
        since_s, ttl_s = times_s
        found["last_heartbeat"] = to_text(round(since_s * 1000) * _MS_NS)
        found["heartbeat_ttl"] = to_text(round(ttl_s * SECOND_NS))
    return found
