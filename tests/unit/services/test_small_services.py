"""Namespaces, pools, sources, volumes, search: what is taken and what is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchgit.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    NotUnderstoodError,
    RefusedError,
)
from orchgit.model.node import Namespace, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.model.source import Source, SourceKind
from orchgit.model.volume import HostVolume
from orchgit.replication.commands.gitops import StoreSource
from orchgit.services.cluster.scheduler_config import set_scheduler_config
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.pauses import pause_source
from orchgit.services.gitops.sources import (
    change_source,
    create_source,
    put_source,
    remove_source,
)
from orchgit.services.host_volumes import (
    delete_host_volume,
    delete_volume_claim,
    put_host_volume,
)
from orchgit.services.jobs.implied_constraints import with_implied_constraints
from orchgit.services.jobs.register import register_job
from orchgit.services.namespaces import delete_namespace, put_namespace
from orchgit.services.nodes.pools import delete_node_pool, put_node_pool
from orchgit.services.search import CONTEXTS, LIMIT, SearchLimits, search_fuzzy, search_prefix
from tests.support.earlier_members import with_member_of
from tests.support.factories import make_group, make_job, make_task
from tests.support.use_cases import ready_node, with_context


def test_deletion_of_a_namespace_with_live_jobs_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        await put_namespace(context, Namespace(name="apps"))
        await register_job(context, make_job(id="web", namespace="apps"))
        with pytest.raises(RefusedError, match="non-terminal jobs in regions"):
            await delete_namespace(context, "apps")
        with pytest.raises(RefusedError, match="can not delete default namespace"):
            await delete_namespace(context, "default")
        with pytest.raises(RefusedError, match="Must match regex"):
            await put_namespace(context, Namespace(name="bad name!"))

    with_context(work)


def test_deletion_of_a_node_pool_with_nodes_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        await put_node_pool(context, NodePool(name="gpu"))
        await ready_node(context, node_pool="gpu")
        with pytest.raises(RefusedError, match="has nodes"):
            await delete_node_pool(context, "gpu")
        with pytest.raises(InvalidInputError, match="not allowed"):
            await put_node_pool(context, NodePool(name="all"))

    with_context(work)


def test_scheduler_config_with_a_wrong_condition_is_not_stored() -> None:
    async def work(context: UseCaseContext) -> None:
        index, updated = await set_scheduler_config(context, SchedulerConfig())
        assert updated
        wrong = SchedulerConfig(scheduler_algorithm="spread")
        assert (await set_scheduler_config(context, wrong, index + 5))[1] is False
        with pytest.raises(InvalidInputError, match="invalid scheduler algorithm: zz"):
            await set_scheduler_config(context, SchedulerConfig(scheduler_algorithm="zz"))

    with_context(work)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"name": "../x"}, "a name has", id="path-name"),
        pytest.param({"name": "--upload-pack=x"}, "a name has", id="option-name"),
        pytest.param({"kind": "ftp"}, "kind must be", id="kind"),
        pytest.param({"kind": SourceKind.REMOTE, "url": ""}, "needs a url", id="no-url"),
        pytest.param({"paths": []}, "at least one path", id="no-paths"),
        pytest.param({"poll_interval_ns": 1}, "at least 1s", id="interval"),
        pytest.param({"poll_interval_ns": 1 << 62}, "at most 720h", id="absurd-interval"),
        pytest.param({"rollout_deadline_ns": -1}, "deadline must be 1s", id="deadline"),
    ],
)
def test_invalid_source_is_refused(change: dict[str, object], problem: str) -> None:
    async def work(context: UseCaseContext) -> None:
        with pytest.raises(InvalidInputError, match=problem):
            await put_source(context, replace(Source(name="demo"), **change))

    with_context(work)


def test_paused_source_keeps_its_settings() -> None:
    async def work(context: UseCaseContext) -> None:
        await put_source(context, Source(name="demo", ref="refs/heads/x"))
        await pause_source(context, "demo")
        with context.snapshot() as snapshot:
            source = snapshot.sources.get("demo")
        assert source is not None
        assert (source.paused, source.ref) == (True, "refs/heads/x")
        await remove_source(context, "demo")
        with pytest.raises(NotFoundError, match="orchgit source list"):
            await remove_source(context, "demo")

    with_context(work)


def test_source_that_exists_is_not_added_again() -> None:
    async def work(context: UseCaseContext) -> None:
        await create_source(context, Source(name="demo", ref="refs/heads/x"))
        with pytest.raises(ConflictError, match="`orchgit source set demo` changes it"):
            await create_source(context, Source(name="demo"))
        with context.snapshot() as snapshot:
            source = snapshot.sources.get("demo")
        assert source is not None
        assert source.ref == "refs/heads/x"

    with_context(work)


def test_kind_and_name_of_a_source_never_change() -> None:
    async def work(context: UseCaseContext) -> None:
        await create_source(context, Source(name="demo", kind="remote", url="https://a.example/x"))
        with pytest.raises(InvalidInputError, match=r"from remote to builtin.*-adopt"):
            await change_source(context, "demo", lambda one: replace(one, kind="builtin", url=""))
        with pytest.raises(InvalidInputError, match="`orchgit source rename demo new`"):
            await change_source(context, "demo", lambda one: replace(one, name="new"))
        with context.snapshot() as snapshot:
            found = snapshot.sources.all()
        entry = StoreSource(source=Source(name="demo"), expected_modify_index=found[0].modify_index)
        with pytest.raises(RefusedError, match="its kind is remote"):
            await context.propose(entry)
        with pytest.raises(NotFoundError, match="orchgit source list"):
            await change_source(context, "gone", lambda one: one)

    with_context(work)


def test_volume_needs_a_node_and_a_name_unique_on_the_node() -> None:
    async def work(context: UseCaseContext) -> None:
        with pytest.raises(RefusedError, match="missing name"):
            await put_host_volume(context, HostVolume())
        with pytest.raises(RefusedError, match="could not place volume"):
            await put_host_volume(context, HostVolume(name="data"))
        node = await ready_node(context)
        for wrong, words in (
            (HostVolume(name=".."), 'invalid name ".."'),
            (HostVolume(name="a\n"), "invalid name"),
            (HostVolume(name="a b"), "invalid name"),
            (HostVolume(name="a", parameters={"uid": "-5"}), 'cannot use uid "-5"'),
            (HostVolume(name="a", parameters={"uid": "-5"}, plugin_id="mkdir"), "cannot use uid"),
            (HostVolume(name="a", host_path="/srv/../etc", node_id=node.id), "must not have"),
        ):
            with pytest.raises(RefusedError, match=words):
                await put_host_volume(context, wrong)
        volume = await put_host_volume(context, HostVolume(name="data"))
        assert (volume.node_id, volume.node_pool) == (node.id, "default")
        with pytest.raises(RefusedError, match="already"):
            await put_host_volume(context, HostVolume(name="data", node_id=node.id))
        with pytest.raises(NotFoundError, match="volume not found"):
            await delete_host_volume(context, "other", volume.id)
        await delete_host_volume(context, "default", volume.id)
        with pytest.raises(NotFoundError, match="claim not found"):
            await delete_volume_claim(context, "none")

    with_context(work)


def test_prefix_search_is_limited_and_reports_truncation() -> None:
    async def work(context: UseCaseContext) -> None:
        for number in range(LIMIT + 2):
            await register_job(context, make_job(id=f"web-{number}"))
        with context.snapshot() as snapshot:
            found = search_prefix(snapshot, "web-", "jobs", "default")
            assert (len(found.matches["jobs"]), found.truncated) == (LIMIT, {"jobs": True})
            elsewhere = search_prefix(snapshot, "web-", "all", "other")
            assert (elsewhere.matches["jobs"], elsewhere.truncated["jobs"]) == ([], False)
            assert not {"allocs", "nodes", "evals", "deployment"} & set(elsewhere.matches)
            hexadecimal = search_prefix(snapshot, "ab", "all", "other")
            assert hexadecimal.matches["allocs"] == []
            assert search_prefix(snapshot, "", "volumes", "default").index == 0
            with pytest.raises(RefusedError, match="context must be one of"):
                search_prefix(snapshot, "x", "zz", None)

    with_context(work)


def test_fuzzy_search_finds_names_inside_jobs_with_their_scopes() -> None:
    async def work(context: UseCaseContext) -> None:
        task = make_task(name="PostgresMain")
        await register_job(context, make_job(id="db", task_groups=[make_group(tasks=[task])]))
        with context.snapshot() as snapshot:
            found = search_fuzzy(snapshot, "postgres", "all", "default")
            (match,) = found.matches["tasks"]
            assert (match.id, match.scope) == ("PostgresMain", ("default", "db", "web"))
            with pytest.raises(RefusedError, match="at least 2 characters, got 1"):
                search_fuzzy(snapshot, "p", "all", None)

    with_context(work)


def test_fuzzy_search_lists_the_closest_first_and_tells_only_what_was_searched() -> None:
    async def work(context: UseCaseContext) -> None:
        for job_id in ("a-web", "web-long", "web", "web-1"):
            await register_job(context, make_job(id=job_id, name=job_id))
        with context.snapshot() as snapshot:
            found = search_fuzzy(snapshot, "WEB", "jobs", "default")
            names = [each.id for each in found.matches["jobs"]]
            assert names == ["web", "web-1", "web-long", "a-web"]
            assert "allocs" not in found.truncated
            assert "evals" not in found.matches
            every = search_fuzzy(snapshot, "web", "all", "default")
            assert (every.matches["evals"], "nodes" in every.matches) == ([], False)
            assert set(CONTEXTS) <= set(every.truncated)
            limits = SearchLimits(max_results=2)
            few = search_fuzzy(snapshot, "web", "jobs", "default", limits=limits)
            assert (len(few.matches["jobs"]), few.truncated["jobs"]) == (2, True)
            with pytest.raises(RefusedError, match="context must be one of"):
                search_fuzzy(snapshot, "web", "", "default")

    with_context(work)


def test_implied_constraints_are_added_once() -> None:
    task = make_task(kill_signal="SIGHUP")
    job = make_job(task_groups=[make_group(tasks=[task])])
    once = with_implied_constraints(job)
    constraints = once.task_groups[0].constraints or []
    assert [(each.l_target, each.r_target, each.operand) for each in constraints] == [
        ("${attr.os.signals}", "SIGHUP", "set_contains")
    ]
    assert with_implied_constraints(once) == once


def test_policies_of_a_source_wait_for_the_upgrade_of_every_server() -> None:
    async def work(context: UseCaseContext) -> None:
        for version in (3, 4):
            upgrading, name = with_member_of(version, context), f"demo{version}"
            await create_source(upgrading, Source(name=name))
            await change_source(upgrading, name, lambda source: replace(source, adopt=True))
            with pytest.raises(NotUnderstoodError):
                await change_source(
                    upgrading, name, lambda source: replace(source, policies=["team-a"])
                )
            await put_source(upgrading, Source(name=name, policies=["team-a"]))
            with context.snapshot() as snapshot:
                stored = snapshot.sources.get(name)
            assert stored is not None
            assert stored.policies == []
        await change_source(context, "demo4", lambda source: replace(source, policies=["team-a"]))
        with context.snapshot() as snapshot:
            stored = snapshot.sources.get("demo4")
        assert stored is not None
        assert stored.policies == ["team-a"]

    with_context(work)


@pytest.mark.parametrize("policies", [["a b"], [""], ["**"], ["x" * 129], ["a"] * 33])
def test_what_is_no_policy_is_refused_of_a_source(policies: list[str]) -> None:
    async def work(context: UseCaseContext) -> None:
        with pytest.raises(InvalidInputError, match="polic"):
            await create_source(context, Source(name="demo", policies=policies))

    with_context(work)
