"""Finds objects by the beginning of their id, or by a part of their name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from orchgit.errors import RefusedError
from orchgit.model.job import Job
from orchgit.services.identifiers import scaling_policy_id, uuid_prefix
from orchgit.state.snapshot import Snapshot

LIMIT = 20
CONTEXTS = (
    "allocs",
    "jobs",
    "nodes",
    "node_pools",
    "evals",
    "deployment",
    "plugins",
    "volumes",
    "scaling_policy",
    "vars",
    "namespaces",
    "host_volumes",
)
_UUID_CONTEXTS = ("allocs", "nodes", "evals", "deployment", "host_volumes")
_UUID_CHARACTERS = frozenset("0123456789abcdef-")


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """What the server's configuration says of fuzzy searches. `max_results`: of one kind."""

    fuzzy_enabled: bool = True
    max_results: int = 100
    min_characters: int = 2


class SearchScope(Protocol):
    """What a search may tell its caller."""

    def may_search(self, kind: str) -> bool:
        """Returns whether objects of the kind are looked for at all."""
        ...

    def sees(self, kind: str, namespace: str, name: str) -> bool:
        """Returns whether one object may be found; `name` is its id, name or path."""
        ...


class UnlimitedScope:
    """Everything may be found."""

    def may_search(self, kind: str) -> bool:
        return True

    def sees(self, kind: str, namespace: str, name: str) -> bool:
        return True


UNLIMITED = UnlimitedScope()
FUZZY_LIMITS = SearchLimits()


class _Named(Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def id(self) -> str: ...


_Candidates = Iterable[tuple[str, str]]
Finder = Callable[[Snapshot, str | None, str], _Candidates]
"""Yields (namespace, id, name or path)."""


@dataclass(frozen=True, slots=True)
class FuzzyMatch:
    """A match; `scope` leads from the namespace down to the object that holds it."""

    id: str
    scope: tuple[str, ...] = ()


def search_prefix(
    snapshot: Snapshot,
    prefix: str,
    context: str,
    namespace: str | None,
    scope: SearchScope = UNLIMITED,
) -> dict[str, list[str]]:
    """Returns the ids beginning with `prefix`, per context; LIMIT + 1 where there are more."""
    if context not in (*CONTEXTS, "all", ""):
        raise RefusedError(
            f"context must be one of [{' '.join(CONTEXTS)}] or 'all' for all contexts; "
            f'got "{context}"'
        )
    # A text that cannot begin a UUID is not looked for among objects that have one.
    is_uuid = set(prefix.lower()) <= _UUID_CHARACTERS
    chosen = [context]
    if context in ("all", ""):
        searched = filter(scope.may_search, CONTEXTS)
        chosen = [name for name in searched if is_uuid or name not in _UUID_CONTEXTS[:4]]
    found: dict[str, list[str]] = {}
    for name in chosen:
        wanted = uuid_prefix(prefix) if name in _UUID_CONTEXTS else prefix
        finder = _FINDERS.get(name)
        candidates = finder(snapshot, namespace, wanted) if finder else ()
        visible = (each for within, each in candidates if scope.sees(name, within, each))
        found[name] = list(islice(visible, LIMIT + 1))
    return found


def search_fuzzy(
    snapshot: Snapshot,
    text: str,
    context: str,
    namespace: str | None,
    scope: SearchScope = UNLIMITED,
    limits: SearchLimits = FUZZY_LIMITS,
) -> dict[str, list[FuzzyMatch]]:
    """Returns the names that contain `text` in any case, per kind of object; one more than
    `limits.max_results` where there are more."""
    if not limits.fuzzy_enabled:
        raise RefusedError("fuzzy search is not enabled")
    if len(text) < limits.min_characters:
        raise RefusedError(
            f"fuzzy search query must be at least {limits.min_characters} characters, "
            f"got {len(text)}"
        )
    matches: dict[str, list[FuzzyMatch]] = {}
    searched: dict[str, bool] = {}
    for kind, match in _fuzzy_candidates(snapshot, namespace):
        if kind not in searched:
            searched[kind] = scope.may_search(kind)
        # The scope of what a namespace holds begins with it.
        within = match.scope[0] if len(match.scope) > 1 else ""
        if not searched[kind] or not scope.sees(kind, within, match.id):
            continue
        wanted = context in ("all", "") or context == kind or context == "jobs"
        found = matches.setdefault(kind, [])
        if wanted and text.lower() in match.id.lower() and len(found) <= limits.max_results:
            found.append(match)
    return {kind: found for kind, found in matches.items() if found}


def _of_cluster(names: Iterable[str], prefix: str) -> _Candidates:
    return (("", name) for name in names if name.startswith(prefix))


def _scaling_policies(snapshot: Snapshot, namespace: str | None, prefix: str) -> _Candidates:
    """Yields the policies of one namespace; a search of all namespaces finds none, as in Nomad."""
    for job in snapshot.jobs.all(namespace) if namespace else ():
        for group in job.task_groups:
            if group.scaling is not None:
                found = group.scaling.id or scaling_policy_id(job.namespace, job.id, group.name)
                if found.startswith(prefix):
                    yield job.namespace, found


def _of_namespace(found: Iterable[_Named]) -> _Candidates:
    return ((each.namespace, each.id) for each in found)


_FINDERS: dict[str, Finder] = {
    "allocs": lambda s, ns, prefix: _of_namespace(s.allocations.all(ns, prefix)),
    "jobs": lambda s, ns, prefix: _of_namespace(s.jobs.all(ns, prefix)),
    "nodes": lambda s, ns, prefix: _of_cluster((each.id for each in s.nodes.all(prefix)), ""),
    "evals": lambda s, ns, prefix: _of_namespace(s.evaluations.all(ns, prefix)),
    "deployment": lambda s, ns, prefix: _of_namespace(s.deployments.all(ns, prefix)),
    "node_pools": lambda s, ns, prefix: _of_cluster((p.name for p in s.node_pools.all()), prefix),
    "namespaces": lambda s, ns, prefix: _of_cluster((n.name for n in s.namespaces.all()), prefix),
    "vars": lambda s, ns, prefix: (
        (each.namespace, each.path) for each in s.variables.all(ns, prefix)
    ),
    "host_volumes": lambda s, ns, prefix: (
        (each.namespace, each.id) for each in s.host_volumes.all(ns) if each.id.startswith(prefix)
    ),
    "scaling_policy": _scaling_policies,
}


def _fuzzy_candidates(
    snapshot: Snapshot, namespace: str | None
) -> Iterable[tuple[str, FuzzyMatch]]:
    for job in snapshot.jobs.all(namespace):
        yield from _of_job(job)
    for allocation in snapshot.allocations.all(namespace):
        yield "allocs", FuzzyMatch(allocation.name, (allocation.namespace, allocation.id))
    for node in snapshot.nodes.all():
        yield "nodes", FuzzyMatch(node.name, (node.id,))
    for pool in snapshot.node_pools.all():
        yield "node_pools", FuzzyMatch(pool.name, (pool.name,))
    for each in snapshot.namespaces.all():
        yield "namespaces", FuzzyMatch(each.name)
    for variable in snapshot.variables.all(namespace):
        yield "vars", FuzzyMatch(variable.path, (variable.namespace, variable.path))


def _of_job(job: Job) -> Iterable[tuple[str, FuzzyMatch]]:
    yield "jobs", FuzzyMatch(job.name, (job.namespace, job.id))
    for group in job.task_groups:
        path = (job.namespace, job.id)
        yield "groups", FuzzyMatch(group.name, path)
        for service in group.services or ():
            yield "services", FuzzyMatch(service.name, (*path, group.name))
        for task in group.tasks:
            yield "tasks", FuzzyMatch(task.name, (*path, group.name))
            for service in task.services or ():
                yield "services", FuzzyMatch(service.name, (*path, group.name, task.name))
            for kind, key in (("images", "image"), ("commands", "command"), ("classes", "class")):
                value = (task.config or {}).get(key)
                if isinstance(value, str):
                    yield kind, FuzzyMatch(value, (*path, group.name, task.name))
