"""The machine's own use as metrics."""

from __future__ import annotations

from typing import Any

from agent.metrics.node_metrics import host_metrics

SHARES = {"Size": 1, "Available": 3, "UsedPercent": 4.0, "InodesUsedPercent": 5.0}


def disk(device: str, used: int) -> dict[str, Any]:
    return {"Device": device, "Used": used, **SHARES}


def test_device_that_is_mounted_twice_is_one_series() -> None:
    stats = {
        "CPU": [],
        "Memory": {"Total": 1, "Available": 1, "Used": 1, "Free": 1},
        "DiskStats": [disk("/dev/a", 1), disk("/dev/b", 2), disk("/dev/a", 3)],
        "Uptime": 1,
    }
    found = [each for each in host_metrics(stats, {}) if each.name == "nomad.client.host.disk.used"]
    assert {each.labels["disk"]: each.value for each in found} == {"/dev/a": 1, "/dev/b": 2}
    assert len(found) == 2
