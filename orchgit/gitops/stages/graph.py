"""The graph of the jobs of one commit: which job waits for which, and on what condition. Pure.

Dependencies come from `orchgit.hcl` and from the jobs' meta. Two nodes that are no jobs stand for
hooks: `BEFORE_ALL` depends on every pre hook and every other job on it, `AFTER_ALL` depends on
every job but the post hooks, which depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jobspec.errors import did_you_mean
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.job_names import jobs_named, split_dependency
from orchgit.model.ownership import runs_once
from orchgit.model.repository_policy import (
    POLICY_PATH,
    HookStage,
    RepositoryPolicy,
    WaitCondition,
)

DEPENDS_ON_META = "orchgit.depends_on"
BEFORE_ALL: JobKey = ("", "pre hooks")
AFTER_ALL: JobKey = ("", "every other job")
_MAX_CYCLES = 10
_MAX_META_DEPENDENCIES = 100


@dataclass(frozen=True, slots=True)
class Edge:
    """`job` waits for `dependency`; `place` says where that is written, as `file:line:column`."""

    job: JobKey
    dependency: JobKey
    condition: WaitCondition
    place: str


@dataclass(frozen=True, slots=True)
class JobGraph:
    """`edges` are those of each job that waits for others. With `problems` the commit is refused:
    unknown jobs, cycles, conditions that never hold."""

    edges: Mapping[JobKey, tuple[Edge, ...]] = field(default_factory=dict)
    pre_hooks: tuple[Edge, ...] = ()
    """The edges from `BEFORE_ALL`."""
    post_hooks: frozenset[JobKey] = frozenset()
    outside_hooks: frozenset[JobKey] = frozenset()
    """The pre hooks, and the jobs that they depend on: these do not wait for the pre hooks."""
    problems: tuple[str, ...] = ()

    @property
    def completing(self) -> frozenset[JobKey]:
        """The hooks, and the batch jobs for whose completion others wait."""
        waited_for = {
            edge.dependency
            for edges in (self.pre_hooks, *self.edges.values())
            for edge in edges
            if edge.condition is WaitCondition.COMPLETE
        }
        return self.post_hooks | waited_for

    def dependencies(self, job: JobKey) -> Iterator[Edge]:
        """Yields all that a job waits for, pre hooks included, but for `AFTER_ALL`."""
        yield from self.edges.get(job, ())
        if self.pre_hooks and job not in self.outside_hooks:
            yield from self.pre_hooks


NO_ORDER = JobGraph()


def job_graph(jobs: Mapping[JobKey, DesiredJob], policy: RepositoryPolicy) -> JobGraph:
    """Returns the graph of a commit's jobs."""
    if not policy.jobs and not policy.hooks and not any(_meta_of(job) for job in jobs.values()):
        return NO_ORDER
    return _GraphBuilder(jobs, policy).build()


def _meta_of(job: DesiredJob) -> str:
    return (job.job.meta or {}).get(DEPENDS_ON_META, "")


class _GraphBuilder:
    """Resolves the names of one commit's dependencies, and checks what they lead to."""

    def __init__(self, jobs: Mapping[JobKey, DesiredJob], policy: RepositoryPolicy) -> None:
        self._jobs = jobs
        self._policy = policy
        self._problems: list[str] = []
        self._edges: dict[JobKey, dict[tuple[JobKey, WaitCondition], Edge]] = {}

    def build(self) -> JobGraph:
        for rule in self._policy.jobs:
            place = f"{POLICY_PATH}:{rule.line}:{rule.column}"
            key = self._job(rule.job, place)
            if key is None:
                continue
            for wanted in rule.depends_on:
                where = f"{POLICY_PATH}:{wanted.line}:{wanted.column}"
                self._add(key, wanted.job, wanted.condition, where)
        for key, job in self._jobs.items():
            self._add_meta(key, job)
        pre_hooks = self._hooks(HookStage.PRE)
        post_hooks = self._hooks(HookStage.POST)
        graph = JobGraph(
            edges={key: tuple(edges.values()) for key, edges in self._edges.items()},
            pre_hooks=tuple(
                Edge(BEFORE_ALL, key, WaitCondition.COMPLETE, place)
                for key, place in pre_hooks.items()
            ),
            post_hooks=frozenset(post_hooks),
            outside_hooks=self._ancestors(pre_hooks),
        )
        self._problems += _cycles(graph, self._jobs, post_hooks)
        return JobGraph(
            graph.edges,
            graph.pre_hooks,
            graph.post_hooks,
            graph.outside_hooks,
            tuple(self._problems),
        )

    def _add_meta(self, key: JobKey, job: DesiredJob) -> None:
        text = _meta_of(job)
        place = f"{job.path}:{job.line}:1"
        names = [name.strip() for name in text.split(",") if name.strip()]
        if len(names) > _MAX_META_DEPENDENCIES:
            self._problems.append(
                f"{place}: job {key[1]!r} depends on {len(names)} jobs, more than the limit of "
                f"{_MAX_META_DEPENDENCIES}"
            )
            return
        for name in names:
            self._add(key, *split_dependency(name), place)

    def _hooks(self, stage: HookStage) -> dict[JobKey, str]:
        """Returns the jobs of the hooks of one stage, with the place of each hook."""
        found: dict[JobKey, str] = {}
        for hook in self._policy.hooks:
            place = f"{POLICY_PATH}:{hook.line}:{hook.column}"
            if hook.stage != stage or (key := self._job(hook.job, place)) is None:
                continue
            if not runs_once(self._jobs[key].job):
                self._problems.append(
                    f"{place}: job {hook.job!r} of hook {hook.name!r} never completes: a hook is "
                    "a batch or sysbatch job without a schedule and without parameters"
                )
            elif sum(other.job == hook.job for other in self._policy.hooks) > 1:
                self._problems.append(f"{place}: job {hook.job!r} is the job of two hooks")
            else:
                found[key] = place
        return found

    def _add(self, key: JobKey, name: str, condition: str, place: str) -> None:
        dependency = self._job(name, place, key)
        if dependency is None:
            return
        ends = runs_once(self._jobs[dependency].job)
        if not condition:
            condition = WaitCondition.COMPLETE if ends else WaitCondition.HEALTHY
        if condition not in tuple(WaitCondition):
            known = ", ".join(WaitCondition)
            self._problems.append(
                f"{place}: job {key[1]!r} depends on {name!r} with the unknown condition "
                f"{condition!r} (known: {known}). {did_you_mean(condition, WaitCondition)}"
            )
            return
        if condition == WaitCondition.COMPLETE and not ends:
            self._problems.append(
                f"{place}: job {name!r} never completes, so job {key[1]!r} would wait for ever: "
                "only a batch or sysbatch job without a schedule completes"
            )
            return
        wanted = WaitCondition(condition)
        edges = self._edges.setdefault(key, {})
        edges.setdefault((dependency, wanted), Edge(key, dependency, wanted, place))

    def _job(self, name: str, place: str, dependent: JobKey | None = None) -> JobKey | None:
        """Returns the job of this commit that the name stands for, or None after a problem."""
        namespace = dependent[0] if dependent is not None else ""
        found = jobs_named(name, self._jobs, namespace)
        if len(found) == 1:
            return found[0]
        who = f"job {dependent[1]!r} depends on job {name!r}" if dependent else f"job {name!r}"
        if found:
            choices = ", ".join("/".join(key) for key in found[:5])
            self._problems.append(f"{place}: {who}, of which there are several: {choices}")
            return None
        hint = did_you_mean(name, (job_id for _, job_id in self._jobs))
        text = f"{place}: {who}, which this commit does not have"
        if not dependent:
            text = f"{place}: this commit has no job {name!r}"
        advice = hint or (
            "A job of another source is waited for with depends_on_sources."
            if dependent
            else 'What concerns one source of the repository alone belongs into source "NAME" { }.'
        )
        self._problems.append(f"{text}. {advice}")
        return None

    def _ancestors(self, pre_hooks: Iterable[JobKey]) -> frozenset[JobKey]:
        """Returns the jobs and all that they depend on."""
        found = set(pre_hooks)
        waiting = list(found)
        while waiting:
            for edge in self._edges.get(waiting.pop(), {}).values():
                if edge.dependency not in found:
                    found.add(edge.dependency)
                    waiting.append(edge.dependency)
        return frozenset(found)


def all_edges(
    graph: JobGraph, jobs: Iterable[JobKey], post_hooks: Mapping[JobKey, str]
) -> dict[JobKey, list[Edge]]:
    """Returns the edges of every node, those of the two nodes that are no jobs among them."""
    edges = {key: list(found) for key, found in graph.edges.items()}
    before = WaitCondition.COMPLETE
    if graph.pre_hooks:
        edges[BEFORE_ALL] = list(graph.pre_hooks)
    if post_hooks:
        edges[AFTER_ALL] = []
    for key in jobs:
        if graph.pre_hooks and key not in graph.outside_hooks:
            edges.setdefault(key, []).append(
                Edge(key, BEFORE_ALL, before, graph.pre_hooks[0].place)
            )
        if key in post_hooks:
            edge = Edge(key, AFTER_ALL, WaitCondition.HEALTHY, post_hooks[key])
            edges.setdefault(key, []).append(edge)
        elif post_hooks:
            edges[AFTER_ALL].append(Edge(AFTER_ALL, key, WaitCondition.HEALTHY, ""))
    return edges


def _cycles(
    graph: JobGraph, jobs: Mapping[JobKey, DesiredJob], post_hooks: Mapping[JobKey, str]
) -> Iterator[str]:
    """Yields a problem for each cycle found, spelled out, with the place of each step."""
    edges = all_edges(graph, jobs, post_hooks)
    is_done: dict[JobKey, bool] = {}
    found = 0
    for start in edges:
        if start in is_done:
            continue
        is_done[start] = False
        path: list[Edge] = []
        stack = [iter(edges[start])]
        while stack:
            edge = next(stack[-1], None)
            if edge is None:
                stack.pop()
                is_done[path.pop().dependency if path else start] = True
                continue
            target = edge.dependency
            if target not in is_done:
                is_done[target] = False
                path.append(edge)
                stack.append(iter(edges.get(target, ())))
            elif not is_done[target]:
                steps = [*path, edge]
                first = next(i for i, step in enumerate(steps) if step.job == target)
                yield _spelled(steps[first:])
                found += 1
                if found == _MAX_CYCLES:
                    return


def _spelled(steps: list[Edge]) -> str:
    """Returns `place: ... a -> b (place) -> a (place)`, beginning at a step with a place."""
    begin = next((i for i, step in enumerate(steps) if step.place), 0)
    steps = steps[begin:] + steps[:begin]
    names = steps[0].job[1]
    for step in steps:
        names += f" -> {step.dependency[1]}" + (f" ({step.place})" if step.place else "")
    return f"{steps[0].place}: jobs wait for each other: {names}; remove one of these dependencies"
