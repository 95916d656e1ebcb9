"""The graph of a commit's jobs, and the stages that follow from it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.each_commit import with_commit
from orchgit.gitops.parsing.job_names import jobs_named, split_dependency
from orchgit.gitops.parsing.policy_parser import parse_policy
from orchgit.gitops.rollouts.waiting import EVERY_JOB_BEFORE
from orchgit.gitops.stages.graph import NO_ORDER, JobGraph, job_graph
from orchgit.gitops.stages.stages import Stages, plan_stages
from orchgit.model.job import Job, PeriodicConfig
from orchgit.model.repository_policy import RepositoryPolicy, WaitCondition
from tests.support.factories import make_batch_job, make_job


def desired(job: Job) -> DesiredJob:
    return DesiredJob(job, f"{job.id}.nomad", 1, f"blob of {job.id}", f"content of {job.id}")


def jobs(*services: str, batch: tuple[str, ...] = (), **meta: str) -> dict[JobKey, DesiredJob]:
    """Jobs by key; `meta` gives the dependencies of a job in its meta."""
    found = [make_job(id=name) for name in services] + [make_batch_job(id=name) for name in batch]
    for job in found:
        if job.id in meta:
            job.meta = {"orchgit.depends_on": meta[job.id]}
    return {(job.namespace, job.id): desired(job) for job in found}


def policy(text: str) -> RepositoryPolicy:
    return parse_policy(text.encode())


def never(key: JobKey, condition: WaitCondition) -> bool:
    return False


def staged(graph: JobGraph, *changed: str, deleted: tuple[str, ...] = (), is_met=never) -> Stages:  # type: ignore[no-untyped-def]
    return plan_stages(
        graph,
        [("default", name) for name in changed],
        [("default", name) for name in deleted],
        is_met,
    )


def numbers(stages: Stages, *names: str) -> list[int]:
    return [stages.of(("default", name)) for name in names]


def waits(stages: Stages, name: str) -> set[str]:
    return {f"{wait.job_id}:{wait.condition}" for wait in stages.waits.get(("default", name), ())}


def test_commit_without_dependencies_has_no_graph() -> None:
    assert job_graph(jobs("a", "b"), RepositoryPolicy()) is NO_ORDER
    stages = staged(NO_ORDER, "a", deleted=("b",))
    assert numbers(stages, "a", "b") == [0, 0]


def test_dependencies_of_the_file_and_of_meta_are_one_graph() -> None:
    graph = job_graph(
        jobs("db", "cache", "web", "edge", web="db,cache:registered"),
        policy('job "edge" { depends_on = ["web"] }'),
    )
    assert graph.problems == ()
    stages = staged(graph, "edge", "web", "cache", "db")
    assert numbers(stages, "db", "cache", "web", "edge") == [0, 0, 1, 2]
    assert waits(stages, "web") == {"db:healthy", "cache:registered"}


def test_batch_job_is_waited_for_until_it_is_complete() -> None:
    graph = job_graph(jobs("web", batch=("load",), web="load"), RepositoryPolicy())
    stages = staged(graph, "load", "web")
    assert waits(stages, "web") == {"load:complete"}
    assert stages.must_complete == {("default", "load")}


def test_unchanged_dependency_that_meets_its_condition_is_not_waited_for() -> None:
    graph = job_graph(jobs("db", "web", web="db"), RepositoryPolicy())
    assert numbers(staged(graph, "web", is_met=lambda key, condition: True), "web") == [0]


def test_unchanged_dependency_that_does_not_meet_its_condition_makes_a_stage() -> None:
    graph = job_graph(jobs("db", "web", web="db"), RepositoryPolicy())
    stages = staged(graph, "web")
    assert numbers(stages, "web") == [1]
    assert waits(stages, "web") == {"db:healthy"}


HOOKS = """
hook "migrate" {
  stage = "pre"
  job   = "migrate"
}
hook "smoke" {
  stage = "post"
  job   = "smoke"
}
job "migrate" { depends_on = ["db"] }
"""


def test_pre_hook_comes_before_all_jobs_but_those_it_depends_on_and_post_hook_after_all() -> None:
    graph = job_graph(
        jobs("db", "web", "edge", batch=("migrate", "smoke"), edge="web"), policy(HOOKS)
    )
    stages = staged(graph, "db", "web", "edge", "migrate", "smoke", deleted=("old",))
    order = numbers(stages, "db", "migrate", "web", "edge", "smoke", "old")
    assert order == [0, 1, 2, 3, 4, 5]
    assert waits(stages, "web") == {"migrate:complete"}
    assert stages.waits["default", "smoke"] == (EVERY_JOB_BEFORE,)
    assert stages.waits["default", "old"] == (EVERY_JOB_BEFORE,)
    assert stages.must_complete == {("default", "migrate"), ("default", "smoke")}


def test_hook_that_does_not_change_and_is_complete_holds_nothing_up() -> None:
    graph = job_graph(jobs("db", "web", batch=("migrate", "smoke")), policy(HOOKS))
    stages = staged(graph, "web", "db", is_met=lambda key, condition: True)
    assert numbers(stages, "db", "web") == [0, 0]


def test_deletions_of_a_commit_with_one_stage_go_with_it() -> None:
    graph = job_graph(jobs("db", "web", web="db"), RepositoryPolicy())
    assert numbers(staged(graph, "db", deleted=("old",)), "db", "old") == [0, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'job "web" { depends_on = ["dbb"] }',
            "orchgit.hcl:1:28: job 'web' depends on job 'dbb', which this commit does not have. "
            'Did you mean "db"?',
        ),
        (
            'job "web" { depends_on = ["another"] }',
            "A job of another source is waited for with depends_on_sources.",
        ),
        ('job "wep" {}', "orchgit.hcl:1:1: this commit has no job 'wep'. Did you mean \"web\"?"),
        ('job "web" { depends_on = ["db:complete"] }', "job 'db' never completes"),
        ('hook "h" {\n stage = "pre"\n job = "db"\n}', "job 'db' of hook 'h' never completes"),
        (
            'hook "a" {\n stage = "pre"\n job = "load"\n}\n'
            'hook "b" {\n stage = "post"\n job = "load"\n}',
            "job 'load' is the job of two hooks",
        ),
        (
            'job "web" { depends_on = ["web"] }',
            "orchgit.hcl:1:28: jobs wait for each other: web -> web (orchgit.hcl:1:28); remove one",
        ),
        (
            'job "db" { depends_on = ["web"] }\njob "web" { depends_on = ["load", "db"] }',
            "orchgit.hcl:1:27: jobs wait for each other: db -> web (orchgit.hcl:1:27) -> db "
            "(orchgit.hcl:2:36)",
        ),
        (
            'hook "h" {\n stage = "post"\n job = "load"\n}\njob "web" { depends_on = ["load"] }',
            "load (orchgit.hcl:5:28) -> every other job (orchgit.hcl:1:1) -> web",
        ),
    ],
)
def test_mistake_in_the_order_is_refused_with_its_place(text: str, expected: str) -> None:
    graph = job_graph(jobs("db", "web", batch=("load",)), policy(text))
    assert any(expected in problem for problem in graph.problems), graph.problems


def test_mistake_in_meta_is_refused_at_the_job() -> None:
    found = jobs("db", "web", web="db:helthy")
    (problem,) = job_graph(found, RepositoryPolicy()).problems
    assert problem.startswith("web.nomad:1:1: job 'web' depends on 'db' with the unknown condition")
    assert 'Did you mean "healthy"?' in problem


def test_periodic_job_never_completes() -> None:
    found = jobs("web", batch=("nightly",), web="nightly:complete")
    found["default", "nightly"].job.periodic = PeriodicConfig(spec="@daily")
    (problem,) = job_graph(found, RepositoryPolicy()).problems
    assert "never completes" in problem


def test_name_stands_for_the_job_of_the_same_namespace_first() -> None:
    keys = [("default", "db"), ("ops", "db"), ("ops", "only"), ("a", "two"), ("b", "two")]
    assert jobs_named("db", keys, "ops") == [("ops", "db")]
    assert jobs_named("db", keys) == [("default", "db")]
    assert jobs_named("ops/db", keys) == [("ops", "db")]
    assert jobs_named("only", keys) == [("ops", "only")]
    assert jobs_named("two", keys) == [("a", "two"), ("b", "two")]
    assert jobs_named("none", keys) == []


def test_colon_in_a_job_id_is_no_condition() -> None:
    assert split_dependency("a:b") == ("a:b", "")
    assert split_dependency("a:b:complete") == ("a:b", "complete")
    assert split_dependency("a:compleet") == ("a", "compleet")


def test_hook_of_each_commit_is_another_job_in_each_commit() -> None:
    found = jobs("web", batch=("smoke",))
    text = 'hook "s" {\n stage = "post"\n job = "smoke"\n run = "each_commit"\n}'
    one, two = (with_commit(found, policy(text), commit) for commit in ("c1", "c2"))
    assert one["default", "web"] is found["default", "web"]
    assert one["default", "smoke"].job.meta == {"orchgit.commit": "c1"}
    assert one["default", "smoke"].content_id != two["default", "smoke"].content_id
    assert found["default", "smoke"].job.meta is None


names = st.sampled_from([f"j{number}" for number in range(8)])
pairs = st.lists(st.tuples(names, names), max_size=20)


def graph_of(edges: list[tuple[str, str]]) -> JobGraph:
    meta: dict[str, list[str]] = {}
    for job, dependency in edges:
        meta.setdefault(job, []).append(dependency)
    found = jobs(*(f"j{n}" for n in range(8)), **{k: ",".join(v) for k, v in meta.items()})
    return job_graph(found, RepositoryPolicy())


@given(pairs, st.sets(names), st.sets(names))
def test_stages_respect_every_edge_of_a_graph_without_cycles(
    edges: list[tuple[str, str]], changed: set[str], met: set[str]
) -> None:
    forward = [(a, b) for a, b in edges if a > b]
    graph = graph_of(forward)
    assert graph.problems == ()
    stages = staged(graph, *changed, is_met=lambda key, condition: key[1] in met)
    for job, dependency in forward:
        if job not in changed:
            continue
        waited_for = f"{dependency}:healthy" in waits(stages, job)
        assert waited_for == (dependency in changed or dependency not in met)
        if dependency in changed:
            before, after = numbers(stages, dependency, job)
            assert before < after
    used = sorted({*numbers(stages, *changed), 0})
    assert used == list(range(len(used)))
    for name in changed:
        number = stages.of(("default", name))
        assert bool(number) == bool(waits(stages, name))


@given(pairs)
def test_cycle_is_found_exactly_where_there_is_one(edges: list[tuple[str, str]]) -> None:
    after: dict[str, set[str]] = {}
    for job, dependency in edges:
        after.setdefault(job, set()).add(dependency)

    def reaches(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(after.get(start, ()))
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += after.get(node, ())
        return seen

    has_cycle = any(job in reaches(job) for job in after)
    problems = graph_of(edges).problems
    assert bool(problems) == has_cycle
    for problem in problems:
        steps = [
            s.split(" ")[0] for s in problem.split("each other: ")[1].split("; ")[0].split(" -> ")
        ]
        assert steps[0] == steps[-1]
        assert all(b in after[a] for a, b in pairwise(steps))
