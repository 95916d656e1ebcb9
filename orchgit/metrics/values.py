"""The values of metrics, as their owners give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gauge:
    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts` has one number for each of `bounds`, of the values up to it and beyond the bound
    before, and one for all beyond the last."""

    name: str
    bounds: Sequence[float]
    counts: Sequence[int]
    total: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counter:
    """A figure that grows from 0 at the start of the process."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False
    """Whether Prometheus sees the name as it is, as Nomad's counters are, without `_total`."""


Metric = Gauge | Counter | Histogram
