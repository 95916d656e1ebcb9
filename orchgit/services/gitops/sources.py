"""Creates, changes and removes gitops sources, and sets which source owns a job."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from orchgit.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    NotUnderstoodError,
    RefusedError,
)
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.job import Job
from orchgit.model.ownership import owner_of
from orchgit.model.source import (
    EVERY_RIGHT,
    DriftAction,
    DriftPolicy,
    Source,
    SourceKind,
    SourceStatus,
    is_source_name,
)
from orchgit.replication.commands.gitops import (
    DefineSource,
    MoveRefs,
    PutSource,
    RefMove,
    RemoveSource,
    SetJobOwner,
    SetSourceStatus,
    StoreSource,
    UpdateSourceStatus,
    UpsertSource,
)
from orchgit.replication.commands.jobs import JobDeletion
from orchgit.replication.versions import without_new_fields
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job, runs_by_itself
from orchgit.services.gitops.gate_rules import check_gates, check_prune
from orchgit.services.gitops.source_order import check_depends_on

MIN_POLL_INTERVAL_NS = 1_000_000_000
MAX_DURATION_NS = 30 * 24 * 3600 * 1_000_000_000
MAX_IGNORED_PATHS = 64
"""How many paths a source may ignore when jobs are compared."""
_IGNORED_PATH = re.compile(r"[^./\x00-\x20][^/\x00-\x1f]{0,199}")
_MAX_ATTEMPTS = 5
MAX_POLICIES = 32
"""How many policies a source may name."""
_POLICY_NAME = re.compile(r"[a-zA-Z0-9-]{1,128}")


async def put_source(context: UseCaseContext, source: Source) -> int:
    """Stores a source, whether or not it exists; its status stays as it is.

    For the sources of the configuration, which a cluster in the middle of an upgrade needs too.
    """
    _check(context, source)
    now_ns = context.now_ns()
    try:
        return (await context.propose(DefineSource(now_ns=now_ns, source=source))).index
    except NotUnderstoodError:
        known_to_all = replace(source, policies=[])
        applied = await context.propose_newest(
            PutSource(now_ns=now_ns, source=known_to_all),
            lambda: UpsertSource(now_ns=now_ns, source=without_new_fields(source)),
        )
    return applied.index


async def create_source(context: UseCaseContext, source: Source) -> int:
    """Stores a new source. Raises ConflictError if there is a source of that name."""
    _check(context, source)
    return await _store(context, source, expected_modify_index=0)


async def change_source(
    context: UseCaseContext, name: str, change: Callable[[Source], Source]
) -> int:
    """Stores what `change` makes of the source's settings.

    Raises NotFoundError, RefusedError for another kind, and ConflictError when others keep changing
    the source.
    """
    for _ in range(_MAX_ATTEMPTS):
        with context.snapshot() as snapshot:
            source = snapshot.sources.get(name)
        if source is None:
            raise _unknown(name)
        wanted = change(source)
        _check(context, wanted)
        check_change(source, wanted)
        try:
            return await _store(context, wanted, source.modify_index)
        except ConflictError:
            continue
    raise ConflictError(f'cannot change source "{name}": it keeps being changed by others')


async def _store(context: UseCaseContext, source: Source, expected_modify_index: int) -> int:
    """Stores the settings. While a server of an earlier version is a member, only settings that
    this server knows too are accepted: NotUnderstoodError names it otherwise."""
    now_ns = context.now_ns()
    try:
        newest = DefineSource(
            now_ns=now_ns, source=source, expected_modify_index=expected_modify_index
        )
        return (await context.propose(newest)).index
    except NotUnderstoodError:
        if source.policies:
            raise
    try:
        entry = PutSource(now_ns=now_ns, source=source, expected_modify_index=expected_modify_index)
        return (await context.propose(entry)).index
    except NotUnderstoodError:
        earlier = without_new_fields(source)
        if replace(earlier, status=source.status) != source:
            raise
        stored = StoreSource(
            now_ns=now_ns, source=earlier, expected_modify_index=expected_modify_index
        )
        return (await context.propose(stored)).index


def check_change(known: Source, wanted: Source) -> None:
    """Raises InvalidInputError for a change of the name or the kind, which never change."""
    if wanted.name != known.name:
        raise InvalidInputError(
            f'cannot rename source "{known.name}": `orchgit source rename {known.name} '
            f"{wanted.name or 'NAME'}` makes another that takes its jobs over"
        )
    if wanted.kind != known.kind:
        raise InvalidInputError(
            f'cannot change the kind of source "{known.name}" from {known.kind} to {wanted.kind}: '
            f"add another source with -adopt, which takes the jobs over when this one is removed "
            f"(`orchgit source remove {known.name}`)"
        )
    if wanted.repository_name != known.repository_name:
        raise InvalidInputError(
            f'cannot change the repository of source "{known.name}": add another source with '
            f"-adopt, which takes the jobs over when this one is removed (`orchgit source remove "
            f"{known.name}`)"
        )


async def remove_source(context: UseCaseContext, name: str, stop: bool = False) -> int:
    """Removes a source.

    Its jobs stay registered, keep running and have no source then; with `stop` they are stopped in
    the same entry.
    """
    for _ in range(_MAX_ATTEMPTS):
        with context.snapshot() as snapshot:
            if snapshot.sources.get(name) is None:
                raise _unknown(name)
            jobs = snapshot.jobs.of_source(name) if stop else []
        parents = [job for job in jobs if not job.parent_id]
        entry = RemoveSource(
            now_ns=context.now_ns(),
            name=name,
            stop=stop,
            deletions=[
                JobDeletion(job.namespace, job.id, expected_modify_index=job.job_modify_index)
                for job in parents
            ],
            evaluations=[
                evaluation_for_job(context, job, EvalTrigger.JOB_DEREGISTER)
                for job in parents
                if runs_by_itself(job)
            ],
        )
        try:
            return (await context.propose(entry)).index
        except (ConflictError, NotFoundError):
            continue
    raise ConflictError(f'cannot remove source "{name}": its jobs keep being changed by others')


async def release_job(context: UseCaseContext, namespace: str, job_id: str) -> int:
    """Takes the job out of its source: neither its file nor the file's removal changes it."""
    job = _registered(context, namespace, job_id)
    origin = job.origin
    if origin is None or not (origin.source or origin.former_source):
        raise RefusedError(f'cannot release job "{job_id}": it belongs to no source')
    with context.snapshot() as snapshot:
        is_there = snapshot.sources.get(origin.source) is not None
    return await _own(context, job, "", origin.source if is_there else "")


async def give_back_job(context: UseCaseContext, namespace: str, job_id: str) -> int:
    """Undoes a release. Raises RefusedError for a job that was not released, and for one whose
    source was removed since."""
    job = _registered(context, namespace, job_id)
    origin = job.origin
    if origin is None or origin.source or not origin.released_from:
        raise RefusedError(f'cannot give job "{job_id}" back: it was not released from a source')
    with context.snapshot() as snapshot:
        if snapshot.sources.get(origin.released_from) is None:
            raise RefusedError(
                f'cannot give job "{job_id}" back: source "{origin.released_from}" was removed; '
                "the next commit of a source that has a file of the job takes it over"
            )
    return await _own(context, job, origin.released_from, "")


def _registered(context: UseCaseContext, namespace: str, job_id: str) -> Job:
    with context.snapshot() as snapshot:
        job = snapshot.jobs.get(namespace, job_id)
    if job is None:
        raise NotFoundError(f'cannot find job "{job_id}" in namespace "{namespace}"')
    return job


async def _own(context: UseCaseContext, job: Job, source: str, released_from: str) -> int:
    entry = SetJobOwner(
        now_ns=context.now_ns(),
        namespace=job.namespace,
        job_id=job.id,
        source=source,
        released_from=released_from,
        expected_source=owner_of(job),
    )
    return (await context.propose(entry)).index


async def record_source_status(context: UseCaseContext, name: str, status: SourceStatus) -> int:
    now_ns = context.now_ns()
    applied = await context.propose_newest(
        SetSourceStatus(now_ns=now_ns, name=name, status=status),
        lambda: UpdateSourceStatus(now_ns=now_ns, name=name, status=without_new_fields(status)),
    )
    return applied.index


async def move_refs(context: UseCaseContext, name: str, moves: Sequence[RefMove]) -> int:
    """Moves refs of a built-in repository. Raises ConflictError if one moved meanwhile."""
    applied = await context.propose(
        MoveRefs(now_ns=context.now_ns(), source=name, moves=list(moves))
    )
    return applied.index


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f'cannot find source "{name}"; `orchgit source list` shows them')


def _check(context: UseCaseContext, source: Source) -> None:
    if source.depends_on:
        with context.snapshot() as snapshot:
            check_depends_on(source, snapshot.sources.all())
    check_source(source)


def check_source(source: Source) -> None:
    """Raises InvalidInputError for settings of a source that cannot work, whatever is stored."""
    where = f'cannot store source "{source.name}"'
    if not is_source_name(source.name):
        raise InvalidInputError(
            f"{where}: a name has 1-64 lower-case letters, digits and inner dashes"
        )
    if source.kind not in tuple(SourceKind):
        raise InvalidInputError(f"{where}: kind must be one of {', '.join(SourceKind)}")
    if source.kind != SourceKind.BUILTIN and not source.url:
        raise InvalidInputError(f"{where}: a {source.kind} source needs a url")
    if source.repository and source.kind != SourceKind.BUILTIN:
        raise InvalidInputError(f"{where}: only a built-in source names a repository")
    if source.repository and not is_source_name(source.repository):
        raise InvalidInputError(
            f"{where}: the name of a repository has 1-64 lower-case letters, digits and inner "
            "dashes"
        )
    if not source.paths:
        raise InvalidInputError(f"{where}: it needs at least one path glob")
    if source.poll_interval_ns < MIN_POLL_INTERVAL_NS:
        raise InvalidInputError(f"{where}: the poll interval must be at least 1s")
    if source.poll_interval_ns > MAX_DURATION_NS:
        raise InvalidInputError(f"{where}: the poll interval must be at most 720h")
    if source.rollout_deadline_ns and not (
        MIN_POLL_INTERVAL_NS <= source.rollout_deadline_ns <= MAX_DURATION_NS
    ):
        raise InvalidInputError(f"{where}: the rollout deadline must be 1s to 720h, or 0")
    try:
        check_prune(source.prune)
        check_gates(source.gates)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from error
    if len(source.policies) > MAX_POLICIES:
        raise InvalidInputError(f"{where}: it may name at most {MAX_POLICIES} policies")
    for name in source.policies:
        if name != EVERY_RIGHT and _POLICY_NAME.fullmatch(name) is None:
            raise InvalidInputError(f"{where}: {name[:200]!r} is no name of a policy")
    _check_drift(where, source.drift)


def _check_drift(where: str, drift: DriftPolicy) -> None:
    if drift.action not in tuple(DriftAction):
        raise InvalidInputError(f"{where}: drift action must be one of {', '.join(DriftAction)}")
    if not MIN_POLL_INTERVAL_NS <= drift.delay_ns <= MAX_DURATION_NS:
        raise InvalidInputError(f"{where}: the drift delay must be 1s to 720h")
    if len(drift.ignore) > MAX_IGNORED_PATHS:
        raise InvalidInputError(f"{where}: it may ignore at most {MAX_IGNORED_PATHS} paths")
    for path in drift.ignore:
        if _IGNORED_PATH.fullmatch(path) is None or ".." in path:
            raise InvalidInputError(
                f"{where}: cannot ignore {path[:200]!r}: write a dotted path such as "
                "group.*.count or meta.owner"
            )
