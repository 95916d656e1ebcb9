"""Renames a source, with its jobs and its history."""

from __future__ import annotations

from orchgit.errors import InvalidInputError
from orchgit.model.source import is_source_name
from orchgit.replication.commands.gitops import RenameSource
from orchgit.services.context import UseCaseContext


async def rename_source(context: UseCaseContext, name: str, new_name: str) -> int:
    """Gives the source another name in one log entry; its jobs belong to it all the time.

    Raises InvalidInputError for a name that is none, NotFoundError for an unknown source,
    ConflictError and RefusedError for a name that is taken, and NotUnderstoodError while a server
    of an earlier version is a member.
    """
    if not is_source_name(new_name):
        raise InvalidInputError(
            f'cannot rename source "{name}" to {new_name[:200]!r}: a name has 1-64 lower-case '
            "letters, digits and inner dashes"
        )
    with context.snapshot() as snapshot:
        released = [
            (job.namespace, job.id)
            for job in snapshot.jobs.all()
            if job.origin is not None and job.origin.released_from == name
        ]
    entry = RenameSource(now_ns=context.now_ns(), name=name, new_name=new_name, released=released)
    return (await context.propose(entry)).index
