"""Finds objects by the beginning of their id, or by a part of their name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from string import hexdigits
from typing import Generic, Protocol, TypeVar

from orchgit.errors import RefusedError
from orchgit.model.job import Job
from orchgit.services.csi.plugins import plugins_of
from orchgit.services.identifiers import scaling_policy_id, uuid_prefix
from orchgit.state.snapshot import Snapshot

M = TypeVar("M")
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
_OF_WHOLE_BYTES = frozenset(("allocs", "nodes", "evals", "deployment"))
"""Of these a search for what begins no UUID tells nothing, not even that there is none."""
_BY_PREFIX = ("evals", "deployment", "scaling_policy", "volumes", "host_volumes")
"""What a fuzzy search finds by the beginning of its id only."""
_MAX_HYPHENS, _UUID_LENGTH = 4, 36
_NEVER_WRITTEN = 1
"""The index of a table before its first change."""
_TABLES = {
    "allocs": "allocations",
    "evals": "evaluations",
    "deployment": "deployments",
    "vars": "variables",
    "volumes": "csi_volumes",
    "scaling_policy": "jobs",
    "plugins": "",
}
"""The tables of the contexts that have other names than these."""
_CONFIG_KEYS = {
    "docker": ("images", "image"),
    "podman": ("images", "image"),
    "exec": ("commands", "command"),
    "raw_exec": ("commands", "command"),
    "java": ("classes", "class"),
}


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


@dataclass(frozen=True, slots=True)
class Found(Generic[M]):
    """Matches and whether there are more, by context. `index`: of what was searched; 0 where that
    never changed."""

    matches: dict[str, list[M]]
    truncated: dict[str, bool]
    index: int


def search_prefix(
    snapshot: Snapshot,
    prefix: str,
    context: str,
    namespace: str | None,
    scope: SearchScope = UNLIMITED,
) -> Found[str]:
    """Returns the ids beginning with `prefix`, at most LIMIT of a context."""
    chosen = _contexts(context, scope)
    begins_uuid = _begins_uuid(prefix)
    found: dict[str, list[str]] = {}
    for name in chosen:
        if begins_uuid or name not in _OF_WHOLE_BYTES:
            found[name] = _found(snapshot, name, namespace, prefix, scope)
    matches = {name: ids[:LIMIT] for name, ids in found.items()}
    truncated = {name: len(ids) > LIMIT for name, ids in found.items()}
    return Found(matches, truncated, _index(snapshot, chosen, bool(matches.get("plugins"))))


def search_fuzzy(
    snapshot: Snapshot,
    text: str,
    context: str,
    namespace: str | None,
    scope: SearchScope = UNLIMITED,
    limits: SearchLimits = FUZZY_LIMITS,
) -> Found[FuzzyMatch]:
    """Returns the names that contain `text` in any case, the closest first, at most
    `limits.max_results` of a kind; of some kinds the ids that begin with it."""
    if not limits.fuzzy_enabled:
        raise RefusedError("fuzzy search is not enabled")
    if len(text) < limits.min_characters:
        raise RefusedError(
            f"fuzzy search query must be at least {limits.min_characters} characters, "
            f"got {len(text)}"
        )
    chosen = _contexts(context, scope)
    matches: dict[str, list[FuzzyMatch]] = {}
    truncated = dict.fromkeys(chosen, False)
    for name in chosen:
        if name in _BY_PREFIX:
            ids = _found(snapshot, name, namespace, text, scope)
            matches[name] = [FuzzyMatch(each) for each in ids[:LIMIT]]
            # As clients know it: whether there are more to look through.
            truncated[name] = len(_found(snapshot, name, namespace, "", scope)) > LIMIT
    found = _containing(snapshot, text.lower(), chosen, namespace, scope, limits.max_results + 1)
    for kind, hits in found.items():
        truncated[kind] = len(hits) > limits.max_results
        hits = hits[: limits.max_results]
        matches[kind] = [match for _, match in sorted(hits, key=lambda hit: hit[0])]
    return Found(matches, truncated, _index(snapshot, chosen, "plugins" in found))


def _contexts(context: str, scope: SearchScope) -> tuple[str, ...]:
    if context == "all":
        return tuple(filter(scope.may_search, CONTEXTS))
    if context not in CONTEXTS:
        raise RefusedError(
            f"context must be one of [{' '.join(CONTEXTS)}] or 'all' for all contexts; "
            f'got "{context}"'
        )
    return (context,)


def _begins_uuid(prefix: str) -> bool:
    """Returns whether a UUID could begin so; a last digit that is half a byte does not count."""
    hyphens = prefix.count("-")
    whole = prefix[: len(prefix) - (len(prefix) - hyphens) % 2]
    digits = whole.replace("-", "").lower()
    is_short = len(whole) <= _UUID_LENGTH and hyphens <= _MAX_HYPHENS
    return is_short and all(each in hexdigits for each in digits)


def _found(
    snapshot: Snapshot, name: str, namespace: str | None, prefix: str, scope: SearchScope
) -> list[str]:
    """Returns the ids of a context that begin with `prefix`; LIMIT + 1 where there are more."""
    wanted = uuid_prefix(prefix) if name in _UUID_CONTEXTS else prefix
    candidates = _FINDERS[name](snapshot, namespace, wanted)
    visible = (each for within, each in candidates if scope.sees(name, within, each))
    return list(islice(visible, LIMIT + 1))


def _containing(
    snapshot: Snapshot,
    text: str,
    contexts: Collection[str],
    namespace: str | None,
    scope: SearchScope,
    most: int,
) -> dict[str, list[tuple[tuple[int, int, str], FuzzyMatch]]]:
    """Returns (rank, match) of the names that contain `text`, by kind; `most` of a kind."""
    found: dict[str, list[tuple[tuple[int, int, str], FuzzyMatch]]] = {}
    for name in contexts:
        if name in _BY_PREFIX:
            continue
        for kind, match in _fuzzy_candidates(snapshot, name, namespace):
            place = match.id.lower().find(text)
            hits = found.get(kind, [])
            if place < 0 or len(hits) >= most:
                continue
            # The scope of what a namespace holds begins with it.
            within = match.scope[0] if len(match.scope) > 1 else ""
            if scope.sees(kind, within, match.id):
                found.setdefault(kind, hits).append(((place, len(match.id), match.id), match))
    return found


def _index(snapshot: Snapshot, contexts: Iterable[str], has_plugins: bool) -> int:
    names = {_TABLES.get(name, name) for name in contexts} - {""}
    if has_plugins:
        names.add("nodes")
    newest = snapshot.table_indexes.newest(*names) if names else 0
    built_in = names & {"namespaces", "node_pools"}
    return newest if newest > _NEVER_WRITTEN or built_in else 0


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
    "volumes": lambda s, ns, prefix: (
        (each.namespace, each.id) for each in s.csi_volumes.all(ns) if each.id.startswith(prefix)
    ),
    "plugins": lambda s, ns, prefix: _of_cluster(plugins_of(s), prefix),
}


def _fuzzy_candidates(
    snapshot: Snapshot, context: str, namespace: str | None
) -> Iterator[tuple[str, FuzzyMatch]]:
    """Yields the names of one context, each with the kind of what has it."""
    match context:
        case "jobs":
            for job in snapshot.jobs.all(namespace):
                yield from _of_job(job)
        case "allocs":
            for allocation in snapshot.allocations.all(namespace):
                scope = allocation.namespace, allocation.id
                yield "allocs", FuzzyMatch(allocation.name, scope)
        case "nodes":
            for node in snapshot.nodes.all():
                yield "nodes", FuzzyMatch(node.name, (node.id,))
        case "node_pools":
            for pool in snapshot.node_pools.all():
                yield "node_pools", FuzzyMatch(pool.name, (pool.name,))
        case "namespaces":
            for each in snapshot.namespaces.all():
                yield "namespaces", FuzzyMatch(each.name)
        case "plugins":
            for plugin_id in plugins_of(snapshot):
                yield "plugins", FuzzyMatch(plugin_id)
        case "vars":
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
            kind, key = _CONFIG_KEYS.get(task.driver, ("", ""))
            value = (task.config or {}).get(key)
            if isinstance(value, str):
                yield kind, FuzzyMatch(value, (*path, group.name, task.name))
