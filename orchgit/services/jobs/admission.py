"""Admission: the ordered steps every job passes before it may be registered.

Mutators complete the job, guards refuse the whole request, validators list every problem.
Registrations, plans and commits use the same steps, so that a preview and the real thing cannot
disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from jobspec.validate import ClusterFacts, validate_job
from orchgit.errors import InvalidInputError, RefusedError, ValidationError
from orchgit.model.job import Job
from orchgit.model.node import Namespace
from orchgit.services.jobs.implied_constraints import with_implied_constraints
from orchgit.state.snapshot import Snapshot

MAX_PAYLOAD_BYTES = 16 * 1024


RULE_TABLES = ("namespaces", "node_pools", "scheduler_config")
"""The tables that `cluster_rules` reads."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What each server's own configuration says about jobs."""

    max_count: int = 50_000
    """Most allocations of all groups of one job; 0 is no limit."""
    max_priority: int = 100
    vault_clusters: frozenset[str] = frozenset()
    """The Vaults that nodes may have; jobs that use another one are refused."""


DEFAULT_JOB_SETTINGS = JobSettings()


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """What the state says about jobs in general: namespaces, node pools, the scheduler's
    settings."""

    facts: ClusterFacts
    namespaces: Mapping[str, Namespace]
    rejects_registrations: bool


def cluster_rules(snapshot: Snapshot, settings: JobSettings = DEFAULT_JOB_SETTINGS) -> ClusterRules:
    namespaces = {each.name: each for each in snapshot.namespaces.all()}
    config = snapshot.scheduler_config.get()
    facts = ClusterFacts(
        namespaces=frozenset(namespaces),
        node_pools=frozenset(each.name for each in snapshot.node_pools.all()),
        memory_oversubscription=config.memory_oversubscription_enabled,
        numa=config.numa_enabled,
        max_priority=settings.max_priority,
        job_max_count=settings.max_count,
        vault_clusters=settings.vault_clusters,
    )
    return ClusterRules(facts, namespaces, config.reject_job_registration)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A job as it will be stored, warnings for its author, and the job that it replaces."""

    job: Job
    warnings: Sequence[str]
    registered: Job | None


def completed(job: Job) -> Job:
    """Returns the job as it would be stored, whether or not it may be."""
    for _, mutate in MUTATORS:
        job = mutate(job)
    return job


def admit(job: Job, snapshot: Snapshot, rules: ClusterRules) -> Admitted:
    """Runs every step. Raises ValidationError with all problems, RefusedError from a guard."""
    job = completed(job)
    return judged(job, snapshot.jobs.get(job.namespace, job.id), rules)


def judged(job: Job, registered: Job | None, rules: ClusterRules) -> Admitted:
    """Runs the guards and validators on a completed job that replaces `registered`."""
    for _, guard in GUARDS:
        guard(job, registered, rules)
    specification = validate_job(job, rules.facts)
    local = [problem for _, validate in VALIDATORS for problem in validate(job, rules)]
    problems = [*specification.problems, *local]
    if problems:
        places = [*specification.leaves, *(((), problem) for problem in local)]
        raise ValidationError(
            multiple_errors(problems), problems, places, specification.all_warnings
        )
    return Admitted(job, tuple(specification.all_warnings), registered)


def multiple_errors(problems: Sequence[str]) -> str:
    """Returns the problems as the list that Nomad's clients print."""
    noun = "error" if len(problems) == 1 else "errors"
    lines = "".join(f"\t* {problem}\n" for problem in problems)
    return f"{len(problems)} {noun} occurred:\n{lines}\n"


def check_total_count(job: Job, limit: int) -> None:
    """Raises InvalidInputError where the job's total count is over the limit.

    For a job that is made from a registered one, which may be older than the limit.
    """
    total = sum(group.count for group in job.task_groups)
    if 0 < limit < total:
        raise InvalidInputError(
            f'cannot run "{job.id}": its total count was greater than configured job_max_count: '
            f"{total} > {limit}"
        )


# -- mutators: job -> job ------------------------------------------------------------------------


def _with_defaults(job: Job) -> Job:
    """Fills the fields in which an empty string means the default place."""
    named = job.name and job.namespace and job.region and job.node_pool
    if named and job.datacenters and job.priority:
        return job
    return replace(
        job,
        name=job.name or job.id,
        namespace=job.namespace or "default",
        region=job.region or "global",
        node_pool=job.node_pool or "default",
        datacenters=job.datacenters or ["*"],
        priority=job.priority or 50,
    )


def _without_bookkeeping(job: Job) -> Job:
    """Resets the fields that only the server sets; a caller may send back a job that it read."""
    return replace(
        job,
        status="pending",
        status_description="",
        stable=False,
        version=0,
        version_tag=None,
        dispatch_idempotency_token="",
        create_index=0,
        modify_index=0,
        job_modify_index=0,
    )


# -- guards: raise or pass -----------------------------------------------------------------------


def _registration_allowed(job: Job, registered: Job | None, rules: ClusterRules) -> None:
    if rules.rejects_registrations:
        raise RefusedError("cannot register a job: job registration is disabled by an operator")


def _kind_unchanged(job: Job, old: Job | None, rules: ClusterRules) -> None:
    """Refuses to change a job's type, or whether it is periodic or parameterized."""
    if old is None:
        return
    if old.type != job.type:
        raise RefusedError(f'cannot update job from type "{old.type}" to "{job.type}"')
    for kind, was, now in (
        ("periodic", old.is_periodic, job.is_periodic),
        ("parameterized", old.is_parameterized, job.is_parameterized),
    ):
        if was and not now:
            raise RefusedError(f"cannot update {kind} job to being non-{kind}")
        if now and not was:
            raise RefusedError(f"cannot update non-{kind} job to being {kind}")


# -- validators: problems ------------------------------------------------------------------------


def _drivers_allowed(job: Job, rules: ClusterRules) -> Sequence[str]:
    """Lists the task drivers that the job's namespace does not allow."""
    namespace = rules.namespaces.get(job.namespace)
    given = (namespace.capabilities if namespace else None) or {}
    enabled, disabled = given.get("EnabledTaskDrivers"), given.get("DisabledTaskDrivers")
    return [
        f'used task driver "{task.driver}" is not allowed in namespace "{job.namespace}"'
        for group in job.task_groups
        for task in group.tasks
        if (isinstance(enabled, list) and enabled and task.driver not in enabled)
        or (isinstance(disabled, list) and task.driver in disabled)
    ]


MUTATORS: tuple[tuple[str, Callable[[Job], Job]], ...] = (
    ("defaults", _with_defaults),
    ("bookkeeping", _without_bookkeeping),
    ("implied constraints", with_implied_constraints),
)
GUARDS: tuple[tuple[str, Callable[[Job, Job | None, ClusterRules], None]], ...] = (
    ("registration allowed", _registration_allowed),
    ("kind unchanged", _kind_unchanged),
)
VALIDATORS: tuple[tuple[str, Callable[[Job, ClusterRules], Sequence[str]]], ...] = (
    ("drivers", _drivers_allowed),
)
