"""A source gets another name, in one entry with all that is recorded under its name."""

from __future__ import annotations

import msgspec

from orchgit.errors import ConflictError, NotFoundError, RefusedError
from orchgit.model.job import JobOrigin
from orchgit.model.source import Source, SourceKind
from orchgit.replication.commands import RenameSource
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def rename_source(txn: WriteTxn, command: RenameSource, effects: Effects) -> None:
    """Jobs keep their version and their commit. A built-in repository keeps its own name, so its
    URL stays; what was fetched of a remote belongs to the name, and is fetched again."""
    name, new_name = command.name, command.new_name
    source = txn.sources.get(name)
    if source is None:
        raise NotFoundError(f"cannot find source {name!r}: `orchgit source list` shows those known")
    _check_name_is_free(txn, source, new_name)
    repository = source.repository_name if source.kind == SourceKind.BUILTIN else new_name
    _rename_jobs(txn, command)
    _rename_records(txn, name, new_name)
    for other in txn.sources.all():
        if name in other.depends_on:
            other.depends_on = [new_name if each == name else each for each in other.depends_on]
            other.modify_index = txn.index
            txn.sources.put(other)
            effects.note(txn.index, "SourceUpdated", other)
    txn.sources.delete(name)
    effects.note(txn.index, "SourceDeleted", source)
    renamed = msgspec.structs.replace(
        source,
        name=new_name,
        repository="" if repository == new_name else repository,
        modify_index=txn.index,
    )
    txn.sources.put(renamed)
    effects.note(txn.index, "SourceUpdated", renamed)


def _check_name_is_free(txn: WriteTxn, source: Source, new_name: str) -> None:
    """Raise unless neither a source nor a repository of another one has the name, nor the history
    of a removed one."""
    if txn.sources.get(new_name) is not None:
        raise ConflictError(
            f"cannot rename source {source.name!r}: there is a source named {new_name!r}"
        )
    is_own = source.kind == SourceKind.BUILTIN and source.repository_name == new_name
    has_repository = txn.sources.of_repository(new_name) or txn.git_refs.of_source(new_name)
    if txn.rollouts.all(new_name, limit=1) or (has_repository and not is_own):
        raise RefusedError(
            f"cannot rename source {source.name!r}: another source's history or repository is kept "
            f"under the name {new_name!r}; choose another name"
        )


def _rename_jobs(txn: WriteTxn, command: RenameSource) -> None:
    name, new_name = command.name, command.new_name
    for key in txn.jobs.all_keys_of_source(name):
        job = txn.jobs.get(*key)
        assert job is not None
        origin = msgspec.structs.replace(job.origin or JobOrigin(), source=new_name)
        txn.jobs.put(msgspec.structs.replace(job, origin=origin, modify_index=txn.index))
    for key in command.released:
        job = txn.jobs.get(*key)
        if job is not None and job.origin is not None and job.origin.released_from == name:
            origin = msgspec.structs.replace(job.origin, released_from=new_name)
            txn.jobs.put(msgspec.structs.replace(job, origin=origin, modify_index=txn.index))


def _rename_records(txn: WriteTxn, name: str, new_name: str) -> None:
    change = {"source": new_name, "modify_index": txn.index}
    replace = msgspec.structs.replace
    txn.applied_jobs.put_all([replace(each, **change) for each in txn.applied_jobs.of_source(name)])
    txn.held_versions.put_all(
        [replace(each, **change) for each in txn.held_versions.known_of_source(name)]
    )
    txn.drifted_jobs.put_all([replace(each, **change) for each in txn.drifted_jobs.all(name)])
    for rollout in txn.rollouts.all(name):
        txn.rollouts.put(replace(rollout, **change))
    health = txn.source_health.get(name)
    if health is not None:
        txn.source_health.delete(name)
        txn.source_health.put(replace(health, **change))
