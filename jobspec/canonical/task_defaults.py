"""The API's defaults of tasks."""

from __future__ import annotations

import posixpath
from typing import Any

from jobspec.canonical.defaults import (
    MOUNT,
    canonical_logs,
    canonical_resources,
    default_weights,
    fill,
)
from jobspec.canonical.service_defaults import canonicalize_service

Spec = dict[str, Any]
_SECOND_NS = 1_000_000_000

_TEMPLATE: Spec = {
    "SourcePath": "",
    "DestPath": "",
    "EmbeddedTmpl": "",
    "ChangeMode": "restart",
    "Once": False,
    "Splay": 5 * _SECOND_NS,
    "Perms": "0644",
    "LeftDelim": "{{",
    "RightDelim": "}}",
    "Envvars": False,
    "ErrMissingKey": False,
    "VaultGrace": 0,
}
_CHANGE_SCRIPT: Spec = {
    "Command": "",
    "Args": [],
    "Timeout": 5 * _SECOND_NS,
    "FailOnError": False,
    "RunOnFirstRender": False,
}
_CSI_PLUGIN: Spec = {
    "MountDir": "/csi",
    "StagePublishBaseDir": "/local/csi",
    "HealthTimeout": 30 * _SECOND_NS,
}
_VAULT: Spec = {
    "Namespace": "",
    "Env": True,
    "DisableFile": False,
    "ChangeMode": "restart",
    "ChangeSignal": "SIGHUP",
    "AllowTokenExpiration": False,
}


def canonicalize_task(task: Spec, group: Spec, job: Spec) -> None:
    """In place; the group is canonical already but for its tasks."""
    task["Resources"] = canonical_resources(task["Resources"])
    if task["KillTimeout"] is None:
        task["KillTimeout"] = 5 * _SECOND_NS
    task["LogConfig"] = canonical_logs(task["LogConfig"])
    for artifact in task["Artifacts"] or ():
        _artifact(artifact)
    for template in task["Templates"] or ():
        _template(template)
    if task["Vault"] is not None:
        fill(task["Vault"], _VAULT)
        task["Vault"]["Cluster"] = task["Vault"]["Cluster"] or "default"
    if task["Consul"] is not None:
        task["Consul"]["Cluster"] = task["Consul"]["Cluster"] or "default"
    for mount in task["VolumeMounts"] or ():
        fill(mount, MOUNT)
    if task.get("CSIPluginConfig") is not None:
        for key, value in _CSI_PLUGIN.items():
            task["CSIPluginConfig"][key] = task["CSIPluginConfig"][key] or value
    task["RestartPolicy"] = fill(dict(task["RestartPolicy"] or {}), group["RestartPolicy"])
    for service in task["Services"] or ():
        canonicalize_service(service, f"{job['Name']}-{group['Name']}-{task['Name']}")
    default_weights(task)


def _artifact(artifact: Spec) -> None:
    """A single file goes to local/NAME, anything else below local/."""
    fill(artifact, {"GetterMode": "any", "GetterInsecure": False, "GetterSource": ""})
    artifact["GetterMode"] = artifact["GetterMode"] or "any"
    artifact["GetterOptions"] = artifact["GetterOptions"] or None
    artifact["GetterHeaders"] = artifact["GetterHeaders"] or None
    if artifact["RelativeDest"] is None:
        name = posixpath.basename(artifact["GetterSource"].rstrip("/"))
        artifact["RelativeDest"] = f"local/{name}" if artifact["GetterMode"] == "file" else "local/"


def _template(template: Spec) -> None:
    fill(template, _TEMPLATE)
    signal = template["ChangeSignal"]
    if signal is None:
        signal = "SIGHUP" if template["ChangeMode"] == "signal" else ""
    template["ChangeSignal"] = signal.upper()
    if template["ChangeScript"] is not None:
        fill(template["ChangeScript"], _CHANGE_SCRIPT)
