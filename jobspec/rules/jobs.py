"""The job itself."""

from __future__ import annotations

from functools import cache

from jobspec.rules.findings import Findings
from jobspec.rules.groups import check_group
from jobspec.rules.targets import check_affinities, check_constraints, check_spreads
from orchgit.cron_expression import CronError, parse_cron
from orchgit.go_quote import quote
from orchgit.model.job import Job, ParameterizedJobConfig, PeriodicConfig

_TYPES = ("service", "batch", "system", "sysbatch")
_MAX_DESCRIPTION = 1000


def check_job(findings: Findings, job: Job) -> None:
    _identity(findings, job)
    findings.check(not job.task_groups, "Missing job task groups")
    check_constraints(findings, job.constraints)
    if job.type == "system":
        findings.check(
            bool(job.affinities), "System jobs may not have an affinity block", "Affinities"
        )
        findings.check(bool(job.spreads), "System jobs may not have a spread block", "Spreads")
    else:
        check_affinities(findings, job.affinities)
        check_spreads(findings, job.spreads)
    _group_names(findings, job)
    for index, group in enumerate(job.task_groups):
        inner = findings.at("TaskGroups", index)
        check_group(inner, group, job)
        if inner.messages:
            findings.nest(f"Task group {group.name} validation failed", inner)
    if job.periodic is not None and job.periodic.enabled:
        _periodic(findings, job.periodic, job.type)
    if job.parameterized_job is not None:
        _parameterized(findings, job.parameterized_job, job.type)
    description = str((job.ui or {}).get("Description") or "")
    if len(description) > _MAX_DESCRIPTION:
        findings.add(
            f"UI description must be under {_MAX_DESCRIPTION} characters, currently "
            f"{len(description)}",
            "UI",
        )


def _identity(findings: Findings, job: Job) -> None:
    findings.check(not job.region, "Missing job region", "Region")
    if not job.id:
        findings.add("Missing job ID", "ID")
    elif " " in job.id:
        findings.add("Job ID contains a space", "ID")
    elif "\0" in job.id:
        findings.add("Job ID contains a null character", "ID")
    if not job.name:
        findings.add("Missing job name", "Name")
    elif "\0" in job.name:
        findings.add("Job Name contains a null character", "Name")
    findings.check(not job.namespace, "Job must be in a namespace", "Namespace")
    if not job.type:
        findings.add("Missing job type", "Type")
    elif job.type not in _TYPES:
        findings.add(f"Invalid job type: {quote(job.type)}", "Type")
    for datacenter in job.datacenters:
        findings.check(not datacenter, "Job datacenter must be non-empty string", "Datacenters")


def _group_names(findings: Findings, job: Job) -> None:
    first: dict[str, int] = {}
    for index, group in enumerate(job.task_groups):
        place = ("TaskGroups", index)
        if not group.name:
            findings.add(f"Job task group {index + 1} missing name", *place)
        elif group.name in first:
            findings.add(
                f"Job task group {index + 1} redefines '{group.name}' from group "
                f"{first[group.name] + 1}",
                *place,
            )
        else:
            first[group.name] = index
        delay_ns = group.shutdown_delay_ns
        findings.check(
            delay_ns is not None and delay_ns < 0,
            "ShutdownDelay must be a positive value",
            *place,
            "ShutdownDelay",
        )
        if job.type == "system" and group.count > 1:
            findings.add(
                f"Job task group {group.name} has count {group.count}. Count cannot exceed 1 with "
                "system scheduler",
                *place,
                "Count",
            )


def _periodic(findings: Findings, periodic: PeriodicConfig, job_type: str) -> None:
    findings.check(
        job_type not in ("batch", "sysbatch"),
        'Periodic can only be used with "batch" or "sysbatch" scheduler',
        "Periodic",
    )
    inner = findings.at("Periodic")
    if periodic.spec and periodic.specs:
        inner.add("Only cron or crons may be used")
    elif not periodic.spec and not periodic.specs:
        inner.add("Must specify a spec")
    zone = periodic.time_zone
    if zone and zone != "Local" and zone not in _zones():
        inner.add(f"Invalid time zone {quote(zone)}: unknown time zone {zone}", "TimeZone")
    if not (periodic.spec and periodic.specs):
        for spec in [periodic.spec] if periodic.spec else periodic.specs or ():
            try:
                parse_cron(spec)
            except CronError as error:
                inner.add(f"Invalid cron spec {quote(spec)}: {error}")
    findings.nest("", inner)


@cache
def _zones() -> frozenset[str]:
    from zoneinfo import available_timezones  # reads a directory tree: only for periodic jobs

    return frozenset(available_timezones())


def _parameterized(findings: Findings, config: ParameterizedJobConfig, job_type: str) -> None:
    findings.check(
        job_type not in ("batch", "sysbatch"),
        'Parameterized job can only be used with "batch" or "sysbatch" scheduler',
        "ParameterizedJob",
    )
    inner = findings.at("ParameterizedJob")
    inner.check(
        config.payload not in ("optional", "required", "forbidden"),
        f"Unknown payload requirement: {quote(config.payload)}",
        "Payload",
    )
    required = dict.fromkeys(config.meta_required or ())
    both = [key for key in required if key in (config.meta_optional or ())]
    inner.check(
        bool(both),
        "Required and optional meta keys should be disjoint. Following keys exist in both: "
        f"[{' '.join(both)}]",
    )
    findings.nest("", inner)
