"""A context notes, for one request, whether its commands may be in the log."""

from __future__ import annotations

import pytest

from orchgit.errors import ConflictError, UnavailableError
from orchgit.model.job import Job
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion, JobUpsert, RegisterJob
from orchgit.replication.proposal import RequestWrites
from orchgit.services.context import UseCaseContext
from tests.support.use_cases import with_context


def test_applied_command_is_noted() -> None:
    async def work(context: UseCaseContext) -> None:
        writes = RequestWrites()
        await context.noting(writes).propose(RegisterJob(upsert=JobUpsert(Job(id="web"))))
        assert writes.any

    with_context(work)


def test_command_refused_by_its_handler_is_noted() -> None:
    async def work(context: UseCaseContext) -> None:
        writes = RequestWrites()
        upsert = JobUpsert(Job(id="web"), expected_modify_index=7)
        with pytest.raises(ConflictError):
            await context.noting(writes).propose(RegisterJob(upsert=upsert))
        assert writes.any

    with_context(work)


def test_command_refused_by_the_log_is_not_noted() -> None:
    async def work(context: UseCaseContext) -> None:
        writes = RequestWrites()
        await context.state.stop()
        with pytest.raises(UnavailableError):
            await context.noting(writes).propose(
                DeregisterJob(deletion=JobDeletion("default", "web"))
            )
        assert not writes.any

    with_context(work)
