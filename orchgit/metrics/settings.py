"""What the block `telemetry` of the configuration sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchgit.errors import InvalidInputError
from orchgit.metrics.push import PushSettings
from orchgit.metrics.values import Metric


@dataclass(frozen=True, slots=True)
class MetricFilter:
    """Shows or hides metrics by the beginning of their dotted names.

    `rules` are "+prefix" and "-prefix"; the longest that fits decides, hiding before showing.
    """

    rules: tuple[str, ...] = ()
    default: bool = True

    def __post_init__(self) -> None:
        for rule in self.rules:
            if rule[:1] not in ("+", "-") or len(rule) < 2:
                raise InvalidInputError(
                    f'cannot use telemetry.prefix_filter: "{rule}" begins with neither + nor -; '
                    'write "-nomad.raft" to hide, "+nomad.raft.apply" to show'
                )

    def shows(self, name: str) -> bool:
        fitting = [rule for rule in self.rules if name.startswith(rule[1:])]
        if not fitting:
            return self.default
        return max(fitting, key=lambda rule: (len(rule), rule[0] == "-"))[0] == "+"

    def of(self, metrics: Sequence[Metric]) -> list[Metric]:
        if not self.rules and self.default:
            return list(metrics)
        return [metric for metric in metrics if self.shows(metric.name)]


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    allocation_metrics: bool = False
    """Whether agents show what each allocation uses."""
    node_metrics: bool = False
    """Whether agents show what their machine uses."""
    prometheus: bool = True
    """Whether Prometheus' form is served."""
    dispatched_summaries: bool = True
    """Whether the counts of dispatched and periodic jobs are shown one by one."""
    quotas: bool = True
    """Whether the use of quotas is shown."""
    hooks: bool = True
    """Whether agents show how the steps before allocations and tasks end."""
    filter: MetricFilter = field(default_factory=MetricFilter)
    push: PushSettings = field(default_factory=PushSettings)
