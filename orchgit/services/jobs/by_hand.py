"""Changes by hand of jobs that a source owns: the log records who makes them, and the person is
warned."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.durations import to_text
from orchgit.errors import NotUnderstoodError
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import ChangedBy, Job
from orchgit.model.ownership import owner_of
from orchgit.model.source import DriftAction, Source
from orchgit.replication.commands.jobs import (
    ChangeJob,
    DeregisterJob,
    JobDeletion,
    JobUpsert,
    RegisterJob,
    StopJob,
)
from orchgit.replication.replicated import Applied
from orchgit.services.context import UseCaseContext


async def register_by_hand(
    context: UseCaseContext,
    upsert: JobUpsert,
    evaluation: Evaluation | None,
    changed_by: ChangedBy | None,
    refusal: str,
) -> Applied:
    """Commits a registration; `refusal` is what a lost race is answered with.

    A job that was stopped when its source was removed has no owner any more: a later source of that
    name must not stop it.
    """
    now_ns = context.now_ns()
    author = context.writes.author if context.writes is not None else None
    accessor_id = author.accessor_id if author is not None else ""
    if accessor_id != upsert.job.nomad_token_id:
        upsert = replace(upsert, job=replace(upsert.job, nomad_token_id=accessor_id))
    owner = owner_of(upsert.job)
    if owner and context.state.store.latest().sources.get(owner) is None:
        assert upsert.job.origin is not None
        origin = replace(upsert.job.origin, source="", former_source=owner)
        upsert = replace(upsert, job=replace(upsert.job, origin=origin))
    command = RegisterJob(now_ns=now_ns, upsert=upsert, evaluation=evaluation)
    if changed_by is None or not _is_wanted_by_source(context, upsert.job):
        return await context.propose_or_refuse(command, refusal)
    changed_by.time_ns = now_ns
    change = ChangeJob(now_ns=now_ns, upsert=upsert, changed_by=changed_by, evaluation=evaluation)
    try:
        return await context.propose_or_refuse(change, refusal)
    except NotUnderstoodError:
        return await context.propose_or_refuse(command, refusal)


def _is_wanted_by_source(context: UseCaseContext, job: Job) -> bool:
    """Whether a source owns the job, or did until the job was purged by hand."""
    if owner_of(job):
        return True
    return context.state.store.latest().drifted_jobs.get(job.namespace, job.id) is not None


async def deregister_by_hand(
    context: UseCaseContext,
    job: Job,
    deletion: JobDeletion,
    evaluation: Evaluation | None,
    changed_by: ChangedBy | None,
) -> Applied:
    """Commits the end of a job."""
    now_ns = context.now_ns()
    command = DeregisterJob(now_ns=now_ns, deletion=deletion, evaluation=evaluation)
    if changed_by is None or not owner_of(job):
        return await context.propose(command)
    changed_by.time_ns = now_ns
    stop = StopJob(now_ns=now_ns, deletion=deletion, changed_by=changed_by, evaluation=evaluation)
    return await context.propose_newest(stop, lambda: command)


def source_warnings(context: UseCaseContext, job: Job) -> list[str]:
    """Returns what a person who changes a source's job by hand should know."""
    if not owner_of(job):
        return []
    source = context.state.store.latest().sources.get(owner_of(job))
    return [] if source is None else [warning_of(source, job)]


def warning_of(source: Source, job: Job) -> str:
    """Returns whose the job is, what becomes of a change by hand, and how to keep the change."""
    place = f" ({job.origin.file}:{job.origin.line})" if job.origin and job.origin.file else ""
    namespace = "" if job.namespace == "default" else f"-namespace {job.namespace} "
    pause = "" if source.paused else f"`orchgit source pause {source.name}` pauses the source, "
    return (
        f'job "{job.id}" belongs to source "{source.name}"{place}: {_what_happens(source)}; '
        f"{pause}`orchgit source release {namespace}{job.id}` takes the job out of it"
    )


def _what_happens(source: Source) -> str:
    # Which paths a change touches is known only after it was made.
    but = "unless the source ignores what changed, " if source.drift.ignore else ""
    return f"{but}{_fate_of_change(source)}"


def _fate_of_change(source: Source) -> str:
    after = to_text(source.drift.delay_ns)
    if source.paused:
        return "the source is paused, so the change is shown as drift until it is resumed"
    if source.drift.action == DriftAction.HEAL:
        return f"the change is shown as drift, and the job is put back as its file says in {after}"
    if source.drift.action == DriftAction.ADOPT:
        return f"the change is shown as drift, and written to the job's file in {after}"
    return "the change is shown as drift, and the next commit puts it back as its file says"
