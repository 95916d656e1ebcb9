"""Blame: which of several things is meant, and what an origin that is half known shows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchgit.errors import InvalidInputError
from orchgit.model.job import ChangedBy, JobOrigin
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.source import Source
from orchgit.replication.commands.gitops import RecordRollout, UpsertSource
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.blame import BlameQuestion, find_blame
from orchgit.services.gitops.source_rename import rename_source
from tests.support.factories import make_job
from tests.support.use_cases import placed_job, ready_node, with_context

ORIGIN = JobOrigin(
    source="demo",
    commit_id="c0ffee",
    author="Ada",
    subject="One",
    file="web.hcl",
    line=3,
    group_lines={"web": 7},
)


def test_beginning_that_several_things_share_is_refused_with_their_names() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        first, second = await placed_job(context, make_job(id="web"), [node, node])
        with context.snapshot() as snapshot:
            with pytest.raises(InvalidInputError, match=r"matches several things \(allocation "):
                find_blame(snapshot, BlameQuestion(first[:8]))
            assert find_blame(snapshot, BlameQuestion(first[:3])) is None
            found = find_blame(snapshot, BlameQuestion(second))
            assert found is not None
            assert (found.type, found.alloc_id) == ("allocation", second)

    with_context(work)


def test_type_chooses_among_things_of_one_name() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context, name="web")
        await placed_job(context, make_job(id="web"), [node])
        with context.snapshot() as snapshot:
            for type_, wanted in (("", "job"), ("job", "job"), ("node", "node")):
                found = find_blame(snapshot, BlameQuestion("web", type=type_))
                assert found is not None
                assert found.type == wanted
            assert find_blame(snapshot, BlameQuestion("web", type="variable")) is None
            with pytest.raises(InvalidInputError, match="the type is one of allocation, node"):
                find_blame(snapshot, BlameQuestion("web", type="pod"))

    with_context(work)


def test_lines_of_groups_and_the_last_change_by_hand_come_from_the_origin_of_the_version() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        job = make_job(id="web", origin=ORIGIN)
        await context.propose(RegisterJob(upsert=JobUpsert(job)))
        with context.snapshot() as snapshot:
            whole = find_blame(snapshot, BlameQuestion("web"))
            group = find_blame(snapshot, BlameQuestion("web", group="web"))
            assert whole is not None
            assert group is not None
            assert (whole.line, whole.group_line, whole.group_lines) == (3, 0, {"web": 7})
            assert (group.group_line, group.group_lines) == (7, {})
            assert (group.author, group.commit_id) == ("Ada", "c0ffee")
            empty = find_blame(snapshot, BlameQuestion(node.id))
            assert empty is not None
            assert (empty.type, empty.origins) == ("node", [])

    with_context(work)


@pytest.mark.parametrize(("version", "is_shown"), [(0, True), (1, False)])
def test_change_by_hand_of_another_version_is_not_shown(version: int, is_shown: bool) -> None:
    async def work(context: UseCaseContext) -> None:
        by = ChangedBy(via="register", user="bob", version=version)
        job = make_job(id="web", origin=JobOrigin(source="demo", changed_by=by))
        await context.propose(RegisterJob(upsert=JobUpsert(job)))
        with context.snapshot() as snapshot:
            found = find_blame(snapshot, BlameQuestion("web"))
            assert found is not None
            assert (found.changed_by is not None) is is_shown

    with_context(work)


def test_earlier_version_of_a_renamed_source_is_the_sources_under_its_new_name() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        await context.propose(UpsertSource(source=Source(name="demo")))
        made = Rollout(id="r1", source="demo", commit=Commit(id="c0ffee"))
        await context.propose(RecordRollout(rollout=made))
        job = make_job(id="web", origin=replace(ORIGIN, rollout_id="r1"))
        [allocation] = await placed_job(context, job, [node])
        await context.propose(RegisterJob(upsert=JobUpsert(replace(job, priority=60))))
        await rename_source(context, "demo", "shop")
        with context.snapshot() as snapshot:
            found = find_blame(snapshot, BlameQuestion(allocation))
        assert found is not None
        assert (found.job_version, found.source) == (0, "shop")

    with_context(work)
