"""Gives names to versions of a job, which are then kept."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.errors import InvalidInputError
from orchgit.replication.commands.jobs import DeleteJobVersionTag, SetJobVersionTag
from orchgit.services.context import UseCaseContext

MAX_NAME_CHARACTERS = 128
MAX_DESCRIPTION_CHARACTERS = 1024


@dataclass(frozen=True, slots=True)
class TaggedVersion:
    index: int
    tagged_time_ns: int


async def tag_job_version(context: UseCaseContext, command: SetJobVersionTag) -> TaggedVersion:
    """Tags a version. Raises RefusedError where another version has the tag, InvalidInputError
    for a name or description that is too long."""
    if len(command.name) > MAX_NAME_CHARACTERS:
        raise InvalidInputError(
            f"cannot tag: the name has more than {MAX_NAME_CHARACTERS} characters"
        )
    if len(command.description) > MAX_DESCRIPTION_CHARACTERS:
        raise InvalidInputError(
            f"cannot tag: the description has more than {MAX_DESCRIPTION_CHARACTERS} characters"
        )
    applied = await context.propose(command)
    return TaggedVersion(applied.index, command.now_ns)


async def untag_job_version(context: UseCaseContext, namespace: str, job_id: str, name: str) -> int:
    """Returns the index. Raises RefusedError where no version has the tag."""
    command = DeleteJobVersionTag(
        now_ns=context.now_ns(), namespace=namespace, job_id=job_id, name=name
    )
    return (await context.propose(command)).index
