"""What the node's configuration says about templates, and what they use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.templates.cluster_reads import ClusterReads
from agent.templates.functions import DENIED
from agent.templates.renderer import TemplateRenderer
from orchgit.model.base import NS_PER_S


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """A change is rendered after `min_ns` without another one, at most `max_ns` after the first."""

    min_ns: int = 0
    max_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSettings:
    """`client.template` of the configuration."""

    denied: tuple[str, ...] = DENIED
    """Functions that templates may not use."""
    is_sandboxed: bool = True
    """Whether `file` reads nothing outside of the task's directory."""
    wait: WaitTimes = WaitTimes(5 * NS_PER_S, 240 * NS_PER_S)
    """For templates without a `wait` of their own."""
    wait_bounds: WaitTimes | None = None
    """The times of a template's own `wait` are at least `min_ns`, and at most `max_ns` (0: any)."""
    query_wait_s: float = 300.0
    """How long one blocking query waits."""
    first_backoff_s: float = 0.25
    max_backoff_s: float = 60.0
    """Between queries that fail."""
    use_consul_token: bool = False
    """Whether templates read Consul with the agent's token instead of none."""

    def wait_of(self, wait: Mapping[str, object] | None) -> WaitTimes:
        """The times of a template with this `wait` block."""
        if wait is None:
            return self.wait
        low, high = _whole(wait.get("Min")), _whole(wait.get("Max"))
        times = WaitTimes(low, high or 4 * low)
        if self.wait_bounds is None:
            return times
        shortest_ns, longest_ns = self.wait_bounds.min_ns, self.wait_bounds.max_ns
        return WaitTimes(
            _between(times.min_ns, shortest_ns, longest_ns),
            _between(times.max_ns, shortest_ns, longest_ns),
        )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _between(value: int, low: int, high: int) -> int:
    return max(low, min(value, high or value))


@dataclass(frozen=True, slots=True)
class NodeTemplates:
    """What every task's templates share."""

    renderer: TemplateRenderer = field(default_factory=TemplateRenderer)
    reads: ClusterReads = field(default_factory=ClusterReads)
    settings: TemplateSettings = field(default_factory=TemplateSettings)
