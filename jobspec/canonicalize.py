"""Applies the API's defaults, and makes the typed job that the server works with.

`canonicalize` answers as `POST /v1/jobs/parse` does with `Canonicalize: true`. It takes any
API-shaped tree: from `parse_job`, or JSON of a client that left fields out or spelt them otherwise.
"""

from __future__ import annotations

from typing import Any

from jobspec.blocks.api_shape import complete, copied, shape_of
from jobspec.canonical.defaults import default_weights, fill
from jobspec.canonical.service_defaults import canonicalize_service
from jobspec.canonical.task_defaults import canonicalize_task
from jobspec.canonical.typed import typed_job
from orchgit.model.job import Job

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 60 * MINUTE_NS
DAY_NS = 24 * HOUR_NS

Spec = dict[str, Any]

_JOB: Spec = {
    "ID": "",
    "ParentID": "",
    "Namespace": "default",
    "Priority": 50,
    "Stop": False,
    "Region": "global",
    "NodePool": "",
    "Type": "service",
    "AllAtOnce": False,
    "ConsulNamespace": "",
    "VaultNamespace": "",
    "NomadTokenID": "",
    "Status": "",
    "StatusDescription": "",
    "Stable": False,
    "Version": 0,
    "CreateIndex": 0,
    "ModifyIndex": 0,
    "JobModifyIndex": 0,
}
_PERIODIC: Spec = {
    "Enabled": True,
    "Spec": "",
    "Specs": [],
    "SpecType": "cron",
    "ProhibitOverlap": False,
    "TimeZone": "UTC",
}
_UPDATE: Spec = {
    "Stagger": 30 * SECOND_NS,
    "MaxParallel": 1,
    "HealthCheck": "checks",
    "MinHealthyTime": 10 * SECOND_NS,
    "HealthyDeadline": 5 * MINUTE_NS,
    "ProgressDeadline": 10 * MINUTE_NS,
    "AutoRevert": False,
    "AutoPromote": False,
    "Canary": 0,
}
_MIGRATE: Spec = {
    "MaxParallel": 1,
    "HealthCheck": "checks",
    "MinHealthyTime": 10 * SECOND_NS,
    "HealthyDeadline": 5 * MINUTE_NS,
}
_RESCHEDULE: dict[str, Spec] = {
    "service": {
        "Attempts": 0,
        "Interval": 0,
        "Delay": 30 * SECOND_NS,
        "DelayFunction": "exponential",
        "MaxDelay": HOUR_NS,
        "Unlimited": True,
    },
    "batch": {
        "Attempts": 1,
        "Interval": DAY_NS,
        "Delay": 5 * SECOND_NS,
        "DelayFunction": "constant",
        "MaxDelay": 0,
        "Unlimited": False,
    },
}
_RESCHEDULE_NONE: Spec = {
    "Attempts": 0,
    "Interval": 0,
    "Delay": 0,
    "DelayFunction": "",
    "MaxDelay": 0,
    "Unlimited": False,
}
_RESTART: Spec = {
    "Attempts": 2,
    "Delay": 15 * SECOND_NS,
    "Interval": 30 * MINUTE_NS,
    "Mode": "fail",
    "RenderTemplates": False,
}
_RESTART_BATCH: Spec = {**_RESTART, "Attempts": 3, "Interval": DAY_NS}
_DISK: Spec = {"Sticky": False, "Migrate": False, "SizeMB": 300}
_DISCONNECT: Spec = {"Replace": True, "Reconcile": "best_score"}


def canonicalize(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns a new tree with the API's defaults; InvalidInputError for anything but a job."""
    return _with_defaults(complete(spec, shape_of("job")))


def _with_defaults(job: Spec) -> Spec:
    fill(job, _JOB)
    if job["Name"] is None or job["Name"] == "":
        job["Name"] = job["ID"]
    if job["Periodic"] is not None:
        fill(job["Periodic"], _PERIODIC)
        job["Periodic"]["TimeZone"] = job["Periodic"]["TimeZone"] or "UTC"
    if job["Update"] is not None:
        fill(job["Update"], _UPDATE)
    elif job["Type"] in ("service", "system"):
        job["Update"] = dict(_UPDATE)
    if job["Multiregion"] is not None:
        _multiregion(job["Multiregion"])
    for group in job["TaskGroups"] or ():
        _group(group, job)
    default_weights(job)
    return job


def to_job(spec: dict[str, Any]) -> Job:
    """The typed job of any API-shaped tree; raises InvalidInputError naming the path of a fault."""
    return typed_job(canonicalize(spec))


def parsed_job(spec: dict[str, Any]) -> Job:
    """`to_job` for a tree of `parse_job`, which is complete and of the right types already."""
    return typed_job(_with_defaults(copied(spec, shape_of("job"))))


def _multiregion(multiregion: Spec) -> None:
    if multiregion["Strategy"] is None:
        multiregion["Strategy"] = {}
    fill(multiregion["Strategy"], {"MaxParallel": 0, "OnFailure": ""})
    for region in multiregion["Regions"] or ():
        fill(region, {"Count": 1, "Datacenters": []})
        region["Meta"] = region["Meta"] or {}


def _group(group: Spec, job: Spec) -> None:
    type_ = job["Type"]
    batch = type_ in ("batch", "sysbatch")
    scaling = group["Scaling"]
    if group["Count"] is None:
        minimum = scaling["Min"] if scaling else None
        group["Count"] = 1 if minimum is None else minimum
    if scaling is not None:
        fill(scaling, {"Enabled": True, "Min": group["Count"]})
        scaling["Type"] = scaling["Type"] or "horizontal"
    group["EphemeralDisk"] = fill(group["EphemeralDisk"] or {}, _DISK)
    group["Update"] = _merged(group["Update"], job["Update"], _UPDATE)
    group["ReschedulePolicy"] = _reschedule(group["ReschedulePolicy"], job["Reschedule"], type_)
    group["Migrate"] = _merged(
        {} if group["Migrate"] is None and type_ == "service" else group["Migrate"],
        job["Migrate"],
        _MIGRATE,
    )
    group["RestartPolicy"] = fill(
        group["RestartPolicy"] or {}, _RESTART_BATCH if batch else _RESTART
    )
    if group["Disconnect"] is not None:
        fill(group["Disconnect"], _DISCONNECT)
    if group["Consul"] is not None:
        group["Consul"]["Cluster"] = group["Consul"]["Cluster"] or "default"
    for service in group["Services"] or ():
        canonicalize_service(service, f"{job['Name']}-{group['Name']}")
    for task in group["Tasks"] or ():
        canonicalize_task(task, group, job)
    default_weights(group)


def _merged(own: Spec | None, inherited: Spec | None, defaults: Spec) -> Spec | None:
    """The group's block, completed by the job's, then by the defaults; null where both are null."""
    if own is None and inherited is None:
        return None
    return fill(fill(dict(own or {}), inherited or {}), defaults)


def _reschedule(own: Spec | None, inherited: Spec | None, type_: str) -> Spec | None:
    defaults = _RESCHEDULE.get(type_)
    if own is None and inherited is None and defaults is None:
        return None
    return fill(fill(dict(own or {}), inherited or {}), defaults or _RESCHEDULE_NONE)
