"""Defaults that tasks, sidecars and groups share."""

from __future__ import annotations

from typing import Any

from jobspec.blocks.table import TABLES

Spec = dict[str, Any]

MOUNT: Spec = {"PropagationMode": "private", "ReadOnly": False, "SELinuxLabel": ""}
_LOGS: Spec = {"MaxFiles": 10, "MaxFileSizeMB": 10, "Disabled": False}


def fill(target: Spec, defaults: Spec) -> Spec:
    """Put each default where the target has null."""
    get = target.get
    for key, value in defaults.items():
        if get(key) is None:
            target[key] = list(value) if type(value) is list else value
    return target


def default_weights(owner: Spec) -> None:
    """Affinities and spreads that say nothing weigh 50."""
    for key in ("Affinities", "Spreads"):
        for item in owner.get(key) or ():
            if item["Weight"] is None:
                item["Weight"] = 50


def canonical_resources(resources: Spec | None) -> Spec:
    """A task that reserves cores asks for no shares of the processor."""
    if resources is None:
        resources = TABLES["resources"].empty.copy()
    if resources["CPU"] is None:
        resources["CPU"] = 100 if resources["Cores"] is None else 0
    fill(resources, {"Cores": 0, "MemoryMB": 300})
    for device in resources["Devices"] or ():
        if device["Count"] is None:
            device["Count"] = 1
        default_weights(device)
    if resources["NUMA"] is not None:
        numa = resources["NUMA"]
        numa["Affinity"] = numa["Affinity"] or "none"
        numa["Devices"] = numa["Devices"] or []
    return resources


def canonical_logs(logs: Spec | None) -> Spec:
    return fill({"Enabled": None} if logs is None else logs, _LOGS)
