"""Where figures of the metrics come from: hooks, quotas, connections that are refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.metrics.hook_times import HookTimes, measured
from orchgit.api.cluster_gauges import cluster_gauges
from orchgit.clock import FakeClock
from orchgit.errors import DriverError
from orchgit.metrics.durations import BOUNDS_S, MeasuredTimes
from orchgit.metrics.settings import TelemetrySettings
from orchgit.model.quota import QuotaAmounts, QuotaLimit, QuotaSpec
from orchgit.replication.commands.settings import PutQuotas
from orchgit.server.http.clients import HttpClients
from tests.support.state import apply, open_store


def test_durations_fall_between_the_bounds() -> None:
    times = MeasuredTimes()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] + 0.0001, 1e6):
        times.observe(seconds)
    assert (times.counts[0], times.counts[1], times.counts[-1]) == (2, 1, 1)
    assert sum(times.counts) == 4


def test_hooks_that_succeed_and_fail_are_counted_and_interrupted_ones_are_not() -> None:
    async def run() -> None:
        clock, times = FakeClock(), HookTimes()
        with measured(times.of_tasks, "artifacts", clock):
            await clock.advance(2.0)
        with pytest.raises(DriverError), measured(times.of_tasks, "artifacts", clock):
            raise DriverError("no such artifact")
        with pytest.raises(asyncio.CancelledError), measured(times.of_tasks, "templates", clock):
            raise asyncio.CancelledError
        artifacts, templates = times.of_tasks["artifacts"], times.of_tasks["templates"]
        assert (artifacts.succeeded, artifacts.failed, artifacts.elapsed.total_s) == (1, 1, 2.0)
        assert (templates.succeeded, templates.failed) == (0, 0)
        assert not times.of_allocs

    asyncio.run(run())


def test_quotas_are_shown_unless_they_are_switched_off(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    limit = QuotaLimit(region="global", region_limit=QuotaAmounts(cpu=500, memory_mb=-1))
    apply(store, PutQuotas(now_ns=1, quotas=[QuotaSpec(name="small", limits=[limit])]))

    def shown(settings: TelemetrySettings) -> dict[tuple[str, str], float]:
        with store.snapshot() as snapshot:
            return {
                (each.name, each.labels["resource"]): each.value
                for each in cluster_gauges(snapshot, settings)
                if each.labels.get("quota") == "small"
            }

    found = shown(TelemetrySettings())
    names = {resource for name, resource in found if name == "orchgit.quota.used"}
    limits = {key: value for key, value in found.items() if key[0] == "orchgit.quota.limit"}
    assert len(names) == 4
    assert sorted(limits.values()) == [0, 500]
    assert shown(TelemetrySettings(quotas=False)) == {}


def test_connections_beyond_the_limit_are_counted() -> None:
    clients = HttpClients(1)
    assert clients.enter("a")
    assert not clients.enter("a")
    assert clients.enter("b")
    assert clients.refused == 1
