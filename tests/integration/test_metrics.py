"""Metrics of a server and of an agent: Nomad's names, labels, and the block `telemetry`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.serve import client_app
from orchgit.metrics.settings import MetricFilter, TelemetrySettings
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig, server_rig

DOCS = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    everything = TelemetrySettings(allocation_metrics=True, node_metrics=True)
    directory = tmp_path_factory.mktemp("metrics")
    with server_rig(directory, agent_config={"telemetry": everything}) as found:
        found.wait_ready_node()
        yield found


def service(job_id: str) -> dict[str, Any]:
    task = {
        "Name": "main",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sleep", "args": ["300"]},
        "Resources": {"CPU": 50, "MemoryMB": 32},
    }
    group = {"Name": "web", "Count": 1, "Tasks": [task], "EphemeralDisk": {"SizeMB": 150}}
    return {"ID": job_id, "Type": "service", "Datacenters": ["dc1"], "TaskGroups": [group]}


def series(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Prometheus' text as (name, labels) -> value."""
    found = {}
    for name, labels, value in re.findall(r"^(\w+)(?:{(.*)})? (\S+)$", text, re.M):
        pairs = frozenset(re.findall(r'(\w+)="([^"]*)"', labels))
        assert (name, pairs) not in found, "a series is there twice"
        found[name, pairs] = float(value)
    return found


def test_scrape_of_a_cluster_that_works_names_only_documented_metrics(rig: ServerRig) -> None:
    job_id = "metrics"
    rig.register(service(job_id))
    labels = {("namespace", "default"), ("job", job_id), ("task_group", "web")}

    def scraped() -> dict[tuple[str, frozenset[tuple[str, str]]], float] | None:
        text = rig.http.get("/v1/metrics", params={"format": "prometheus"}).text
        names = set(re.findall(r"^# TYPE (\w+) ", text, re.M))
        assert [name for name in sorted(names) if f"`{name}" not in DOCS] == []
        found = series(text)
        running = found.get(("nomad_nomad_job_summary_running", frozenset(labels)))
        used = [value for (name, _), value in found.items() if name.endswith("_memory_usage")]
        return found if running == 1 and any(used) else None

    found = until_blocking(scraped)
    names = {name for name, _ in found}
    assert {
        "nomad_nomad_broker_total_ready",
        "nomad_nomad_broker_service_ready",
        "nomad_nomad_blocked_evals_total_blocked",
        "nomad_nomad_plan_queue_depth",
        "nomad_nomad_plan_evaluate_seconds_bucket",
        "nomad_nomad_heartbeat_active",
        "nomad_nomad_job_status_running",
        "nomad_raft_applied_index",
        "nomad_raft_peers",
        "nomad_client_allocated_cpu",
        "nomad_client_host_memory_total",
        "nomad_client_host_cpu_total_percent",
        "nomad_client_uptime",
        "nomad_client_allocs_restart",
        "nomad_nomad_broker_wait_time_seconds_bucket",
        "nomad_nomad_broker_process_time_seconds_bucket",
        "nomad_nomad_plan_submit_seconds_bucket",
        "nomad_http_exceeded",
    } <= names
    hooks = {
        dict(pairs)["hook_name"]
        for (name, pairs), value in found.items()
        if name == "nomad_client_task_hook_prestart_success" and value
    }
    assert {"task_dir", "artifacts", "templates"} <= hooks
    of_alloc = frozenset({("hook_name", "volumes")})
    assert found["nomad_client_alloc_hook_prerun_success", of_alloc] == 1
    of_task = {pairs: value for (name, pairs), value in found.items() if "allocs_memory" in name}
    assert of_task
    for pairs in of_task:
        assert labels <= pairs
        assert {"alloc_id", "task"} <= {label for label, _ in pairs}
    assert sum(v for (n, _), v in found.items() if n == "nomad_client_allocated_cpu") == 50


def test_agent_without_a_server_beside_it_serves_its_own_metrics(rig: ServerRig) -> None:
    async def asked(path: str) -> httpx.Response:
        transport = httpx.ASGITransport(client_app(rig.agent))
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            return await client.get(path)

    answer = rig.run(asked("/v1/metrics")).json()
    names = {each["Name"] for each in answer["Gauges"]}
    assert {"nomad.client.unallocated.memory", "nomad.client.host.disk.size"} <= names
    text = rig.run(asked("/v1/metrics?format=prometheus"))
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE nomad_client_host_memory_used gauge" in text.text
    assert "nomad_raft" not in text.text


def test_telemetry_of_a_server_hides_and_refuses_what_it_is_told_to(tmp_path: Path) -> None:
    settings = TelemetrySettings(
        prometheus=False, filter=MetricFilter(("-nomad", "+nomad.raft.term"))
    )
    with server_rig(tmp_path, with_agent=False, telemetry=settings) as quiet:
        refused = quiet.http.get("/v1/metrics", params={"format": "prometheus"})
        assert (refused.status_code, refused.text) == (415, "Prometheus is not enabled")
        found = quiet.http.get("/v1/metrics").json()
    names = {each["Name"] for kind in ("Gauges", "Counters", "Samples") for each in found[kind]}
    assert {name for name in names if name.startswith("nomad")} == {"nomad.raft.term"}
    assert "orchgit.disk.full" in names


def test_longest_prefix_decides_and_hiding_comes_first() -> None:
    rules = MetricFilter(("-nomad.raft", "+nomad.raft.applied", "+nomad.x", "-nomad.x"))
    assert not rules.shows("nomad.raft.term")
    assert rules.shows("nomad.raft.applied_index")
    assert not rules.shows("nomad.x")
    assert rules.shows("other")
    assert not MetricFilter(("+nomad",), default=False).shows("other")
