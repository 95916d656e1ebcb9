"""A source gets another name, in one entry with all that is recorded under its name."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import ConflictError, NotFoundError, RefusedError
from orchgit.model.job import JobOrigin
from orchgit.model.source import SourceKind
from orchgit.replication.commands.gitops import RenameSource
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def rename_source(txn: WriteTxn, command: RenameSource, effects: Effects) -> None:
    """Jobs keep their version and their commit. A built-in repository keeps its own name, so its
    URL stays; what was fetched of a remote belongs to the name, and is fetched again."""
    name, new_name = command.name, command.new_name
    source = txn.sources.get(name)
    if source is None:
        raise NotFoundError(f"cannot find source {name!r}: `orchgit source list` shows those known")
    if txn.sources.get(new_name) is not None:
        raise ConflictError(f"cannot rename source {name!r}: there is a source named {new_name!r}")
    repository = source.repository_name if source.kind == SourceKind.BUILTIN else new_name
    has_repository = txn.sources.of_repository(new_name) or txn.git_refs.of_source(new_name)
    is_own = new_name == source.repository_name
    if txn.rollouts.all(new_name, limit=1) or (has_repository and not is_own):
        raise RefusedError(
            f"cannot rename source {name!r}: another source's history or repository is kept under "
            f"the name {new_name!r}; choose another name"
        )
    for key in txn.jobs.all_keys_of_source(name):
        job = txn.jobs.get(*key)
        assert job is not None
        origin = replace(job.origin or JobOrigin(), source=new_name)
        txn.jobs.put(replace(job, origin=origin, modify_index=txn.index))
    for key in command.released:
        job = txn.jobs.get(*key)
        if job is not None and job.origin is not None and job.origin.released_from == name:
            origin = replace(job.origin, released_from=new_name)
            txn.jobs.put(replace(job, origin=origin, modify_index=txn.index))
    change = {"source": new_name, "modify_index": txn.index}
    applied, held = txn.applied_jobs, txn.held_versions
    applied.put_all([replace(each, **change) for each in applied.of_source(name)])
    held.put_all([replace(each, **change) for each in held.known_of_source(name)])
    txn.drifted_jobs.put_all([replace(each, **change) for each in txn.drifted_jobs.all(name)])
    for rollout in txn.rollouts.all(name):
        txn.rollouts.put(replace(rollout, **change))
    health = txn.source_health.get(name)
    if health is not None:
        txn.source_health.delete(name)
        txn.source_health.put(replace(health, **change))
    for other in txn.sources.all():
        if name in other.depends_on:
            others = [new_name if each == name else each for each in other.depends_on]
            changed = replace(other, depends_on=others, modify_index=txn.index)
            txn.sources.put(changed)
            effects.note(txn.index, "SourceUpdated", changed)
    txn.sources.delete(name)
    effects.note(txn.index, "SourceDeleted", source)
    own = "" if repository == new_name else repository
    renamed = replace(source, name=new_name, repository=own, modify_index=txn.index)
    txn.sources.put(renamed)
    effects.note(txn.index, "SourceUpdated", renamed)
