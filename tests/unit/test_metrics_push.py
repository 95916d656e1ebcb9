"""Metrics that are sent by UDP: their lines, and what counters grew by."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from orchgit.clock import SystemClock
from orchgit.errors import InvalidInputError
from orchgit.host_port import join_host_port
from orchgit.metrics.push import (
    Growth,
    PushSettings,
    datagrams,
    dogstatsd_line,
    push_forever,
    statsd_line,
)
from orchgit.metrics.values import Counter, Gauge, Histogram, Metric

GAUGE = Gauge("nomad.client.cpu", 1.5, {"node": "n 1", "pool": "a"})


def test_line_of_statsd_has_the_values_of_labels_in_its_name() -> None:
    assert statsd_line(GAUGE, 1.5, "g") == "nomad.client.cpu.n_1.a:1.5|g"


def test_line_of_dogstatsd_has_labels_as_tags() -> None:
    line = dogstatsd_line(GAUGE, 1.5, "g", ["env:prod"])
    assert line == "nomad.client.cpu:1.5|g|#env:prod,node:n_1,pool:a"


def test_counter_is_sent_as_what_it_grew_by() -> None:
    growth = Growth()
    sent = [
        [value for _, value, _ in growth.since_last([Counter("c", total)])] for total in (3, 3, 5)
    ]
    assert sent == [[3.0], [], [2.0]]


def test_histogram_is_sent_as_its_count_and_its_sum() -> None:
    found = Growth().since_last([Histogram("h", [1.0], [2, 1], 4.5)])
    assert [(each.name, value, kind) for each, value, kind in found] == [
        ("h.count", 3, "c"),
        ("h.sum", 4.5, "c"),
    ]


def test_many_lines_fill_datagrams_that_a_network_takes_whole() -> None:
    lines = [f"metric.{number}:1|g" for number in range(500)]
    found = list(datagrams(lines))
    assert b"\n".join(found).decode().splitlines() == lines
    assert max(map(len, found)) <= 1400


@pytest.mark.parametrize(
    "settings", [{"statsd": "nowhere"}, {"dogstatsd": "a:b"}, {"statsd": "a:1", "interval_s": 0.1}]
)
def test_address_without_a_port_and_too_short_an_interval_are_refused(
    settings: dict[str, object],
) -> None:
    with pytest.raises(InvalidInputError):
        PushSettings(**settings)  # type: ignore[arg-type]


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


class QuickClock(SystemClock):
    """Sleeps for no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def gauge() -> list[Metric]:
    return [Gauge("g", 7)]


async def received(host: str, settings: Callable[[str], PushSettings]) -> bytes:
    """What comes at an address of a host while metrics are sent."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as receiver:
        receiver.bind((host, 0))
        receiver.setblocking(False)
        address = join_host_port(host, receiver.getsockname()[1])
        pushing = asyncio.create_task(push_forever(settings(address), gauge, QuickClock()))
        try:
            return await asyncio.get_running_loop().sock_recv(receiver, 2000)
        finally:
            pushing.cancel()


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
@pytest.mark.parametrize("host", ["127.0.0.1", *(["::1"] if has_ipv6() else [])])
def test_metrics_reach_the_configured_address(
    loop: Callable[[], asyncio.AbstractEventLoop], host: str
) -> None:
    work = received(host, lambda address: PushSettings(statsd=address))
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(asyncio.wait_for(work, 60)) == b"g:7|g"


def test_address_that_cannot_be_reached_keeps_nothing_from_the_other() -> None:
    def both(address: str) -> PushSettings:
        return PushSettings(statsd="no-such-host.invalid:1", dogstatsd=address)

    work = received("127.0.0.1", both)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asyncio.wait_for(work, 60)) == b"g:7|g"
