"""The API's defaults of services, checks and the mesh."""

from __future__ import annotations

from typing import Any

from jobspec.canonical.defaults import MOUNT, canonical_logs, canonical_resources, fill

Spec = dict[str, Any]
_SECOND_NS = 1_000_000_000


def canonicalize_service(service: Spec, default_name: str) -> None:
    """In place; `default_name` is made of the job's, group's and task's names."""
    for key, value in (
        ("Name", default_name),
        ("AddressMode", "auto"),
        ("OnUpdate", "require_healthy"),
        ("Provider", "consul"),
        ("Cluster", "default"),
    ):
        service[key] = service[key] or value
    own = service["CheckRestart"]
    if service["Weights"] is not None:
        for key, weight in service["Weights"].items():
            service["Weights"][key] = weight if (weight or 0) > 0 else 1
    for check in service["Checks"] or ():
        check["OnUpdate"] = check["OnUpdate"] or service["OnUpdate"]
        for key in ("SuccessBeforePassing", "FailuresBeforeCritical", "FailuresBeforeWarning"):
            check[key] = max(0, check[key])
        check["CheckRestart"] = _merged_restart(check["CheckRestart"], own)
    if service["Connect"] is not None:
        _connect(service["Connect"])


def _merged_restart(own: Spec | None, service: Spec | None) -> Spec | None:
    if own is None and service is None:
        return None
    merged = dict(own or service or {})
    if service is not None:
        merged["Limit"] = merged["Limit"] or service["Limit"]
        merged["Grace"] = service["Grace"] if merged["Grace"] is None else merged["Grace"]
        merged["IgnoreWarnings"] = merged["IgnoreWarnings"] or service["IgnoreWarnings"]
    if merged["Grace"] is None:
        merged["Grace"] = _SECOND_NS
    return merged


def _connect(connect: Spec) -> None:
    sidecar = connect["SidecarService"]
    if sidecar is not None:
        sidecar["Tags"] = sidecar["Tags"] or None
        proxy = sidecar["Proxy"]
        if proxy is not None:
            proxy["Config"] = proxy["Config"] or None
            for upstream in proxy["Upstreams"] or ():
                upstream["Config"] = upstream["Config"] or None
    task = connect["SidecarTask"]
    if task is not None:
        task["Resources"] = canonical_resources(task["Resources"])
        task["LogConfig"] = canonical_logs(task["LogConfig"])
        for mount in task["VolumeMounts"] or ():
            fill(mount, MOUNT)
        if task["KillTimeout"] is None:
            task["KillTimeout"] = 5 * _SECOND_NS
        if task["ShutdownDelay"] is None:
            task["ShutdownDelay"] = 0
    gateway = connect["Gateway"]
    if gateway is not None and gateway["Ingress"] is not None:
        for listener in gateway["Ingress"]["Listeners"] or ():
            listener["Protocol"] = listener["Protocol"] or "tcp"
    if gateway is not None and gateway["Proxy"] is not None:
        fill(gateway["Proxy"], {"ConnectTimeout": 5 * _SECOND_NS})
