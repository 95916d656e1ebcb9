"""Follows allocations, nodes, volumes, claims, variables and jobs back to a line of a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.errors import InvalidInputError
from orchgit.model.allocation import Allocation
from orchgit.model.blame import Blame, BlameType
from orchgit.model.job import Job, JobOrigin
from orchgit.model.node import Node
from orchgit.model.rollout import Commit
from orchgit.model.variable import StoredVariable, variable_key
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim
from orchgit.state.changes import job_key
from orchgit.state.snapshot import Snapshot

MAX_ORIGINS = 500
_SHORTEST_PREFIX = 4
_MAX_NAMED = 5
_OF_JOBS = "nomad/jobs/"

Thing = Allocation | Node | TaskGroupVolumeClaim | HostVolume | Job | StoredVariable


@dataclass(frozen=True, slots=True)
class BlameQuestion:
    """`text` is an id, the beginning of one (at least four characters), or a name. `type` says of
    what; '' looks for everything. `group` chooses a group of a job."""

    text: str
    namespace: str = "default"
    type: str = ""
    group: str = ""


def find_blame(
    snapshot: Snapshot,
    question: BlameQuestion,
    is_seen: Callable[[Thing], bool] = lambda thing: True,
) -> Blame | None:
    """Returns the origin of what the question names, or None if there is no such thing.

    Things that are not seen count as not there.

    Whole ids come first, then jobs, then names of nodes and volumes, then paths of variables, then
    the beginnings of ids. Raises InvalidInputError for an unknown type, for a group that the job
    does not have, and for a beginning that several things share.
    """
    if question.type and question.type not in set(BlameType):
        raise InvalidInputError(
            f"cannot blame a {question.type!r}: the type is one of {', '.join(BlameType)}"
        )
    named = next((each for each in _named(snapshot, question) if is_seen(each[1])), None)
    if named is not None:
        return _with_token(snapshot, _blame(snapshot, *named, question.group))
    things = [each for each in _by_prefix(snapshot, question) if is_seen(each[1])]
    if len(things) > 1:
        names = ", ".join(f"{type_} {thing.id[:13]}" for type_, thing in things[:_MAX_NAMED])
        raise InvalidInputError(
            f"cannot tell what is meant: {question.text!r} matches several things ({names}); "
            "write more of the id"
        )
    if not things:
        return None
    return _with_token(snapshot, _blame(snapshot, *things[0], question.group))


def _with_token(snapshot: Snapshot, found: Blame) -> Blame:
    """Adds whose token the last change bore: of the thing itself, of the version of its job, or of
    the push that brought this version."""
    keys = {
        BlameType.NODE: ("nodes", found.node_id),
        BlameType.CLAIM: ("volume_claims", found.claim_id),
        BlameType.VOLUME: ("host_volumes", found.volume_id),
        BlameType.VARIABLE: ("variables", variable_key(found.namespace, found.path)),
    }
    job = ("jobs", f"{job_key(found.namespace, found.job_id)}@{found.job_version}")
    token = snapshot.authored_changes.get(*keys.get(BlameType(found.type), job))
    if token is None and found.rollout_id:
        token = snapshot.authored_changes.get("rollouts", found.rollout_id)
    return replace(found, token=token)


def _named(snapshot: Snapshot, question: BlameQuestion) -> Iterable[tuple[BlameType, Thing]]:
    """Yields what has this id, name or path, in the order in which it counts."""
    text, namespace = question.text, question.namespace
    volumes = snapshot.host_volumes.all(namespace)
    candidates: list[tuple[BlameType, Thing | None]] = [
        (BlameType.ALLOCATION, snapshot.allocations.get(text)),
        (BlameType.NODE, snapshot.nodes.get(text)),
        (BlameType.CLAIM, snapshot.volume_claims.get(text)),
        (BlameType.VOLUME, snapshot.host_volumes.get(text)),
        (BlameType.JOB, snapshot.jobs.get(namespace, text)),
        (BlameType.NODE, next((n for n in snapshot.nodes.all() if n.name == text), None)),
        (BlameType.VOLUME, next((v for v in volumes if v.name == text), None)),
        (BlameType.VARIABLE, snapshot.variables.get(namespace, text)),
    ]
    for type_, thing in candidates:
        if thing is not None and question.type in ("", type_):
            yield type_, thing


def _by_prefix(
    snapshot: Snapshot, question: BlameQuestion
) -> Sequence[tuple[BlameType, Allocation | Node | TaskGroupVolumeClaim | HostVolume]]:
    text = question.text
    if len(text) < _SHORTEST_PREFIX:
        return []
    found: list[tuple[BlameType, Allocation | Node | TaskGroupVolumeClaim | HostVolume]] = [
        *((BlameType.ALLOCATION, each) for each in snapshot.allocations.all(None, text)),
        *((BlameType.NODE, each) for each in snapshot.nodes.all(text)),
        *((BlameType.CLAIM, each) for each in snapshot.volume_claims.all()),
        *((BlameType.VOLUME, each) for each in snapshot.host_volumes.all()),
    ]
    return [
        (type_, thing)
        for type_, thing in found
        if thing.id.startswith(text) and question.type in ("", type_)
    ]


def _blame(snapshot: Snapshot, type_: BlameType, thing: Thing, group: str) -> Blame:
    match thing:
        case Allocation():
            found = _of_allocation(snapshot, thing)
        case TaskGroupVolumeClaim():
            found = _of_claim(snapshot, thing)
        case Node():
            held = snapshot.allocations.of_node(thing.id, terminal=False)
            found = Blame(node_id=thing.id, node_name=thing.name)
            found = _with_origins(snapshot, found, held)
        case HostVolume():
            found = _of_volume(snapshot, thing)
        case StoredVariable():
            found = _of_variable(snapshot, thing)
        case Job():
            found = _of_job(snapshot, thing, group)
    return replace(found, type=type_)


def _of_allocation(snapshot: Snapshot, each: Allocation) -> Blame:
    job = snapshot.job_versions.of_allocation(each)
    found = Blame(
        type=BlameType.ALLOCATION,
        alloc_id=each.id,
        node_id=each.node_id,
        node_name=each.node_name,
        namespace=each.namespace,
        job_id=each.job_id,
        job_version=each.job_version,
        task_group=each.task_group,
    )
    if job is not None and job.origin is not None and job.origin.commit_id:
        # An update in place gives an allocation another version than it was placed by.
        return _with_commit(snapshot, found, job)
    return _with_commit(snapshot, found, job, each.commit_id, each.rollout_id)


def _of_claim(snapshot: Snapshot, claim: TaskGroupVolumeClaim) -> Blame:
    job = snapshot.jobs.get(claim.namespace, claim.job_id)
    found = Blame(
        type=BlameType.CLAIM,
        claim_id=claim.id,
        alloc_id=claim.alloc_id,
        volume_id=claim.volume_id,
        volume_name=claim.volume_name,
        namespace=claim.namespace,
        job_id=claim.job_id,
        job_version=job.version if job else 0,
        task_group=claim.task_group_name,
    )
    return _with_commit(snapshot, found, job, claim.commit_id, claim.rollout_id)


def _of_volume(snapshot: Snapshot, volume: HostVolume) -> Blame:
    """The claims on the volume, and the allocations that mount it without one."""
    node = snapshot.nodes.get(volume.node_id)
    found = Blame(
        volume_id=volume.id,
        volume_name=volume.name,
        namespace=volume.namespace,
        node_id=volume.node_id,
        node_name=node.name if node is not None else "",
        create_time=volume.create_time_ns,
        modify_time=volume.modify_time_ns,
    )
    claims = [
        _of_claim(snapshot, each)
        for each in snapshot.volume_claims.all()
        if each.volume_id == volume.id
    ]
    claimed = {(each.namespace, each.job_id, each.task_group) for each in claims}
    mounting = [
        each
        for each in snapshot.allocations.of_node(volume.node_id, terminal=False)
        if (each.namespace, each.job_id, each.task_group) not in claimed
        and _mounts(snapshot, each, volume.name)
    ]
    found = _with_origins(snapshot, found, mounting)
    return replace(found, origins=[*claims, *found.origins][:MAX_ORIGINS])


def _mounts(snapshot: Snapshot, allocation: Allocation, name: str) -> bool:
    job = snapshot.job_versions.of_allocation(allocation)
    group = job.group(allocation.task_group) if job is not None else None
    requests = (group.volumes or {}).values() if group is not None else ()
    sources = {request.source for request in requests if request.type == "host"}
    return name in sources or name.removesuffix(f"[{allocation.name_index}]") in sources


def _of_variable(snapshot: Snapshot, variable: StoredVariable) -> Blame:
    """Variables are no part of a commit: what is known is when one was written, and for a path of
    `nomad/jobs/JOB/GROUP` the job that reads it."""
    found = Blame(
        path=variable.path,
        namespace=variable.namespace,
        create_time=variable.create_time_ns,
        modify_time=variable.modify_time_ns,
    )
    if not variable.path.startswith(_OF_JOBS):
        return found
    job_id, _, rest = variable.path.removeprefix(_OF_JOBS).partition("/")
    job = snapshot.jobs.get(variable.namespace, job_id)
    if job is None:
        return found
    group = job.group(rest.partition("/")[0])
    return replace(found, origins=[_of_job(snapshot, job, group.name if group else "")])


def _of_job(snapshot: Snapshot, job: Job, group: str) -> Blame:
    """Raises InvalidInputError for a group that the job does not have."""
    if group and job.group(group) is None:
        names = ", ".join(each.name for each in job.task_groups)
        raise InvalidInputError(f"cannot find group {group!r} of job {job.id}: it has {names}")
    found = Blame(
        type=BlameType.JOB,
        namespace=job.namespace,
        job_id=job.id,
        job_version=job.version,
        task_group=group,
    )
    return _with_commit(snapshot, found, job)


def _with_origins(snapshot: Snapshot, found: Blame, held: Sequence[Allocation]) -> Blame:
    """Adds an entry for each version and group of a job, those of the newest commits first."""
    counts: dict[tuple[str, str, int, str], int] = {}
    first: dict[tuple[str, str, int, str], Allocation] = {}
    for each in held:
        key = (each.namespace, each.job_id, each.job_version, each.task_group)
        counts[key] = counts.get(key, 0) + 1
        first.setdefault(key, each)
    origins = [
        replace(
            _of_allocation(snapshot, each),
            alloc_id=each.id if counts[key] == 1 else "",
            allocations=counts[key],
        )
        for key, each in first.items()
    ]
    origins.sort(key=lambda each: (-each.commit_time, each.job_id, each.task_group))
    more = max(0, len(origins) - MAX_ORIGINS)
    return replace(found, origins=origins[:MAX_ORIGINS], more_origins=more)


def _with_commit(
    snapshot: Snapshot, found: Blame, job: Job | None, commit_id: str = "", rollout_id: str = ""
) -> Blame:
    """Adds the commit and the lines that the version of the job came from, and who changed the job
    by hand."""
    origin = (job.origin if job is not None else None) or JobOrigin()
    lines = origin.group_lines or {}
    by_hand = origin.changed_by  # perhaps that of an earlier version
    rollout_id = rollout_id or origin.rollout_id
    rollout = snapshot.rollouts.get(rollout_id) if rollout_id else None
    commit = rollout.commit if rollout is not None else Commit()
    source = origin.source
    if rollout is not None and snapshot.sources.get(source) is None:
        source = rollout.source  # of an earlier version, whose source was renamed since
    return replace(
        found,
        source=source,
        commit_id=commit_id or origin.commit_id,
        rollout_id=rollout_id,
        author=commit.author or origin.author,
        email=commit.email,
        subject=commit.subject or origin.subject,
        commit_time=commit.time_ns,
        file=origin.file,
        line=origin.line,
        group_line=lines.get(found.task_group, 0),
        group_lines={} if found.task_group else lines,
        changed_by=by_hand if by_hand and by_hand.version == found.job_version else None,
        drift=snapshot.drifted_jobs.get(found.namespace, found.job_id),
    )
