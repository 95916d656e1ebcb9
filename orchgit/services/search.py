"""Finds objects by the beginning of their id, or by a part of their name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from orchgit.errors import RefusedError
from orchgit.model.job import Job
from orchgit.services.identifiers import uuid_prefix
from orchgit.state.snapshot import Snapshot

LIMIT = 20
MIN_FUZZY_CHARACTERS = 2
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

Finder = Callable[[Snapshot, str | None, str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class FuzzyMatch:
    """A match; `scope` leads from the namespace down to the object that holds it."""

    id: str
    scope: tuple[str, ...] = ()


def search_prefix(
    snapshot: Snapshot, prefix: str, context: str, namespace: str | None
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
        chosen = [name for name in CONTEXTS if is_uuid or name not in _UUID_CONTEXTS[:4]]
    found: dict[str, list[str]] = {}
    for name in chosen:
        wanted = uuid_prefix(prefix) if name in _UUID_CONTEXTS else prefix
        finder = _FINDERS.get(name)
        found[name] = _first(finder(snapshot, namespace, wanted) if finder else ())
    return found


def search_fuzzy(
    snapshot: Snapshot, text: str, context: str, namespace: str | None
) -> dict[str, list[FuzzyMatch]]:
    """Returns the names that contain `text` in any case, per kind of object."""
    if len(text) < MIN_FUZZY_CHARACTERS:
        raise RefusedError(
            f"fuzzy search query must be at least {MIN_FUZZY_CHARACTERS} characters, "
            f"got {len(text)}"
        )
    matches: dict[str, list[FuzzyMatch]] = {}
    for kind, match in _fuzzy_candidates(snapshot, namespace):
        wanted = context in ("all", "") or context == kind or context == "jobs"
        found = matches.setdefault(kind, [])
        if wanted and text.lower() in match.id.lower() and len(found) <= LIMIT:
            found.append(match)
    return {kind: found for kind, found in matches.items() if found}


def _first(ids: Iterable[str]) -> list[str]:
    found = []
    for each in ids:
        found.append(each)
        if len(found) > LIMIT:
            break
    return found


def _named(names: Iterable[str], prefix: str) -> Iterable[str]:
    return (name for name in names if name.startswith(prefix))


_FINDERS: dict[str, Finder] = {
    "allocs": lambda s, ns, prefix: (each.id for each in s.allocations.all(ns, prefix)),
    "jobs": lambda s, ns, prefix: (each.id for each in s.jobs.all(ns, prefix)),
    "nodes": lambda s, ns, prefix: (each.id for each in s.nodes.all(prefix)),
    "evals": lambda s, ns, prefix: (each.id for each in s.evaluations.all(ns, prefix)),
    "deployment": lambda s, ns, prefix: (each.id for each in s.deployments.all(ns, prefix)),
    "node_pools": lambda s, ns, prefix: _named((each.name for each in s.node_pools.all()), prefix),
    "namespaces": lambda s, ns, prefix: _named((each.name for each in s.namespaces.all()), prefix),
    "vars": lambda s, ns, prefix: (each.path for each in s.variables.all(ns, prefix)),
    "host_volumes": lambda s, ns, prefix: _named(
        (each.id for each in s.host_volumes.all(ns)), prefix
    ),
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
