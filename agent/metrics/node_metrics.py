"""The metrics of one agent, under Nomad's names."""

from __future__ import annotations

import asyncio
from collections import Counter as Counts
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agent.allocations.alloc_runner import AllocRunner
from agent.drivers.base import TaskHandle
from agent.metrics.hook_times import HookCounts, HookTimes
from orchgit.errors import OrchgitError
from orchgit.metrics.durations import BOUNDS_S
from orchgit.metrics.values import Counter, Gauge, Histogram, Metric
from orchgit.model.allocation import ClientStatus
from orchgit.model.resources import AllocatedTask

if TYPE_CHECKING:
    from agent.agent import Agent

_ENDED = frozenset((ClientStatus.COMPLETE, ClientStatus.FAILED, ClientStatus.LOST))
_MIB = 1 << 20
_MAX_TASKS = 2000
"""Tasks whose use is asked for in one scrape; beyond that many, the first by allocation."""


async def node_metrics(agent: Agent) -> Sequence[Metric]:
    """Returns what the settings `telemetry` of the agent want to be shown, unfiltered."""
    telemetry = agent.config.telemetry
    runners = list(agent.allocations)
    found: list[Metric] = [*_allocated(agent, runners), *_counted(runners), *_restarts(runners)]
    if telemetry.hooks:
        found += [*_hooks(agent.hook_times)]
    if telemetry.node_metrics:
        from agent.serve import host_stats  # psutil is loaded by the first who asks

        stats = await asyncio.to_thread(
            host_stats.read, agent.config.alloc_root, agent.clock, agent.devices
        )
        found += host_metrics(stats, _node_labels(agent))
    if telemetry.allocation_metrics:
        found += await _tasks(agent, runners)
    return found


def _node_labels(agent: Agent) -> dict[str, str]:
    node = agent.node()
    return {
        "node_id": node.id,
        "datacenter": node.datacenter,
        "node_class": node.node_class,
        "node_pool": node.node_pool,
    }


def _allocated(agent: Agent, runners: Sequence[AllocRunner]) -> Iterator[Metric]:
    node = agent.node()
    labels = _node_labels(agent)
    cpu = memory = disk = 0
    for runner in runners:
        resources = runner.context.alloc.allocated_resources
        if resources is not None and runner.report().client_status not in _ENDED:
            total = resources.total()
            cpu, memory, disk = (
                cpu + total.cpu_shares,
                memory + total.memory_mb,
                disk + total.disk_mb,
            )
    own, kept = node.node_resources, node.reserved_resources
    all_cpu, all_memory = own.cpu.cpu_shares, own.memory.memory_mb
    all_disk = own.disk.disk_mb
    if kept is not None:
        all_cpu -= kept.cpu.cpu_shares
        all_memory -= kept.memory.memory_mb
        all_disk -= kept.disk.disk_mb
    yield Gauge("nomad.client.allocated.cpu", cpu, labels)
    yield Gauge("nomad.client.allocated.memory", memory, labels)
    yield Gauge("nomad.client.allocated.disk", disk, labels)
    yield Gauge("nomad.client.unallocated.cpu", all_cpu - cpu, labels)
    yield Gauge("nomad.client.unallocated.memory", all_memory - memory, labels)
    yield Gauge("nomad.client.unallocated.disk", all_disk - disk, labels)


def _counted(runners: Sequence[AllocRunner]) -> Iterator[Metric]:
    counts = Counts(runner.report().client_status for runner in runners)
    yield Gauge("nomad.client.allocations.running", counts[ClientStatus.RUNNING])
    yield Gauge("nomad.client.allocations.pending", counts[ClientStatus.PENDING])
    yield Gauge("nomad.client.allocations.terminal", sum(counts[status] for status in _ENDED))


def _restarts(runners: Sequence[AllocRunner]) -> Iterator[Metric]:
    for runner in runners:
        for task, state in runner.states.items():
            labels = _labels(runner, task)
            yield Counter("nomad.client.allocs.restart", state.restarts, labels, plain=True)


def _hooks(times: HookTimes) -> Iterator[Metric]:
    for kind, phase, known in (
        ("alloc_hook", "prerun", times.of_allocs),
        ("task_hook", "prestart", times.of_tasks),
    ):
        for name, counts in sorted(known.items()):
            yield from _hook(kind, phase, counts, {"hook_name": name})


def _hook(kind: str, phase: str, counts: HookCounts, labels: dict[str, str]) -> Iterator[Metric]:
    succeeded, failed, elapsed = counts.succeeded, counts.failed, counts.elapsed
    yield Counter(f"nomad.client.{kind}.{phase}.success", succeeded, labels, plain=True)
    yield Counter(f"nomad.client.{kind}.{phase}.failed", failed, labels, plain=True)
    yield Histogram(
        f"nomad.client.{kind}.{phase}.elapsed.seconds",
        BOUNDS_S,
        list(elapsed.counts),
        elapsed.total_s,
        labels,
    )


def _labels(runner: AllocRunner, task: str) -> dict[str, str]:
    alloc = runner.context.alloc
    return {
        "alloc_id": alloc.id,
        "namespace": alloc.namespace,
        "job": alloc.job_id,
        "task_group": alloc.task_group,
        "task": task,
    }


def host_metrics(stats: dict[str, Any], labels: dict[str, str]) -> Iterator[Metric]:
    """Yields the use of the machine, from its stats in the shape of Nomad's; no series twice."""
    for cpu in stats["CPU"]:
        of_cpu = {**labels, "cpu": cpu["CPU"]}
        yield Gauge("nomad.client.host.cpu.user", cpu["User"], of_cpu)
        yield Gauge("nomad.client.host.cpu.system", cpu["System"], of_cpu)
        yield Gauge("nomad.client.host.cpu.idle", cpu["Idle"], of_cpu)
        yield Gauge("nomad.client.host.cpu.total_percent", cpu["TotalPercent"], of_cpu)
    for name in ("total", "available", "used", "free"):
        value = stats["Memory"][name.capitalize()]
        yield Gauge(f"nomad.client.host.memory.{name}", value, labels)
    # A device that is mounted at several places is one disk.
    for disk in {disk["Device"]: disk for disk in reversed(stats["DiskStats"])}.values():
        of_disk = {**labels, "disk": disk["Device"]}
        yield Gauge("nomad.client.host.disk.size", disk["Size"], of_disk)
        yield Gauge("nomad.client.host.disk.used", disk["Used"], of_disk)
        yield Gauge("nomad.client.host.disk.available", disk["Available"], of_disk)
        yield Gauge("nomad.client.host.disk.used_percent", disk["UsedPercent"], of_disk)
        yield Gauge("nomad.client.host.disk.inodes_percent", disk["InodesUsedPercent"], of_disk)
    yield Gauge("nomad.client.uptime", stats["Uptime"], labels)


async def _tasks(agent: Agent, runners: Sequence[AllocRunner]) -> list[Metric]:
    running = [
        (runner, name, task.handle)
        for runner in runners
        for name, task in runner.tasks.items()
        if task.handle is not None
    ][:_MAX_TASKS]
    parts = await asyncio.gather(
        *(_task(agent, runner, name, handle) for runner, name, handle in running)
    )
    return [metric for part in parts for metric in part]


async def _task(
    agent: Agent, runner: AllocRunner, name: str, handle: TaskHandle
) -> Sequence[Metric]:
    try:
        used = await agent.usage.of(handle)
    except OrchgitError:
        return ()  # It ends just now.
    resources = runner.context.alloc.allocated_resources
    task = resources.tasks.get(name) if resources is not None else None
    allocated = task or AllocatedTask()
    labels = _labels(runner, name)
    return (
        Gauge("nomad.client.allocs.cpu.total_percent", used.cpu_percent, labels),
        Gauge("nomad.client.allocs.cpu.total_ticks", used.cpu_mhz, labels),
        Gauge("nomad.client.allocs.cpu.allocated", allocated.cpu.cpu_shares, labels),
        Gauge("nomad.client.allocs.memory.usage", used.memory_bytes, labels),
        Gauge("nomad.client.allocs.memory.rss", used.memory_bytes, labels),
        Gauge("nomad.client.allocs.memory.allocated", allocated.memory.memory_mb * _MIB, labels),
    )
