"""Sends metrics by UDP to statsd, statsite's UDP port and DogStatsD.

Gauges are sent as they are, counters as what they grew by since they were sent last.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import structlog

from orchgit.clock import Clock
from orchgit.errors import InvalidInputError, OrchgitError
from orchgit.host_port import split_host_port
from orchgit.metrics.values import Counter, Gauge, Histogram, Metric

_log = structlog.get_logger(component="metrics")

_MOST_BYTES = 1400
"""Of one datagram: what a network takes in one piece."""
_STRANGE = re.compile(r"[\s:|@#,]")
_WARN_AGAIN_S = 3600.0


@dataclass(frozen=True, slots=True)
class PushSettings:
    """Addresses as host:port; "" is none. `tags` are those of every metric of DogStatsD."""

    statsd: str = ""
    dogstatsd: str = ""
    tags: tuple[str, ...] = ()
    interval_s: float = 10.0

    def __post_init__(self) -> None:
        for name, address in (("statsd_address", self.statsd), ("datadog_address", self.dogstatsd)):
            if address and not has_port(address):
                raise InvalidInputError(f"cannot use telemetry.{name}: {address!r} is no host:port")
        if self.interval_s < 1:
            raise InvalidInputError("cannot use telemetry.collection_interval: at least 1s")

    @property
    def is_on(self) -> bool:
        return bool(self.statsd or self.dogstatsd)


def has_port(address: str) -> bool:
    """Returns whether the address is host:port, and the port is not 0."""
    try:
        return split_host_port(address)[1] > 0
    except (InvalidInputError, ValueError):
        return False


@dataclass(slots=True)
class Growth:
    """What counters stood at when they were sent last."""

    known: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)

    def since_last(self, metrics: Iterable[Metric]) -> Iterator[tuple[Gauge | Counter, float, str]]:
        """Yields (metric, value, kind) of what is to be sent."""
        for each in _flat(metrics):
            if isinstance(each, Gauge):
                yield each, each.value, "g"
                continue
            key = each.name, tuple(sorted(each.labels.items()))
            grown = each.value - self.known.get(key, 0.0)
            self.known[key] = each.value
            if grown > 0:
                yield each, grown, "c"


def _flat(metrics: Iterable[Metric]) -> Iterator[Gauge | Counter]:
    """Yields a histogram as its count and its sum."""
    for each in metrics:
        if isinstance(each, Histogram):
            for suffix, value in (("count", sum(each.counts)), ("sum", each.total)):
                name = f"{each.name}.{suffix}"
                yield Counter(name, value, each.labels)
        else:
            yield each


def statsd_line(metric: Gauge | Counter, value: float, kind: str) -> str:
    """Returns the line of a protocol without labels: their values follow the name."""
    name = ".".join([metric.name, *(each for _, each in sorted(metric.labels.items()) if each)])
    return f"{_STRANGE.sub('_', name)}:{value:.10g}|{kind}"


def dogstatsd_line(
    metric: Gauge | Counter, value: float, kind: str, tags: Sequence[str] = ()
) -> str:
    """Returns the line of DogStatsD, with labels as tags."""
    own = [f"{key}:{_STRANGE.sub('_', each)}" for key, each in sorted(metric.labels.items())]
    listed = ",".join([*tags, *own])
    line = f"{_STRANGE.sub('_', metric.name)}:{value:.10g}|{kind}"
    return f"{line}|#{listed}" if listed else line


def datagrams(lines: Iterable[str]) -> Iterator[bytes]:
    """Yields the lines in as few datagrams as may be."""
    waiting, size = list[bytes](), 0
    for line in lines:
        data = line.encode()
        if waiting and size + len(data) + 1 > _MOST_BYTES:
            yield b"\n".join(waiting)
            waiting, size = [], 0
        waiting.append(data)
        size += len(data) + 1
    if waiting:
        yield b"\n".join(waiting)


async def push_forever(
    settings: PushSettings, collect: Callable[[], Awaitable[Sequence[Metric]]], clock: Clock
) -> None:
    """Sends what `collect` returns, once per interval, to each address. A failure is logged and
    tried again."""
    growth, warned_s = Growth(), -_WARN_AGAIN_S
    while True:
        await clock.sleep(settings.interval_s)
        failures: list[Exception] = []
        try:
            found = list(growth.since_last(await collect()))
        except OrchgitError as error:
            found, failures = [], [error]
        for address, lines in (
            (settings.statsd, (statsd_line(*each) for each in found)),
            (settings.dogstatsd, (dogstatsd_line(*each, settings.tags) for each in found)),
        ):
            try:
                if address:
                    await _send(address, lines)
            except OSError as error:
                failures.append(error)
        if failures and clock.monotonic_s() - warned_s >= _WARN_AGAIN_S:
            warned_s = clock.monotonic_s()
            _log.warning("cannot send metrics", error="; ".join(map(str, failures)))


async def _send(address: str, lines: Iterable[str]) -> None:
    """Sends without waiting: what the kernel cannot take now is an OSError. Not by the event loop:
    uvloop has no `sock_sendto`."""
    host, port = split_host_port(address)
    resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, target = resolved[0]
    with socket.socket(family, kind, protocol) as sock:
        sock.setblocking(False)
        for datagram in datagrams(lines):
            sock.sendto(datagram, target)
