"""What a caller may do: the rules of all its policies, compiled for fast questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from orchgit.acl.capabilities import DENY, LIST, READ, WRITE
from orchgit.acl.rules import NamedRule, PolicyRules, readable_rules

ALL_NAMESPACES = "*"
_MOST_KNOWN = 1000
_PRIVILEGE = (LIST, READ, WRITE, DENY)
"""In ascending order: of several coarse policies the last one counts."""
_NOTHING: frozenset[str] = frozenset()
_WORKLOAD_VARIABLES = frozenset((LIST, READ))

Grants = dict[str, frozenset[str]]
"""Pattern -> capabilities. Deny stands alone, and stays whatever else is granted."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The task that a workload identity speaks for."""

    namespace: str
    job_id: str
    group: str = ""
    task: str = ""

    @property
    def variable_paths(self) -> tuple[str, ...]:
        """The paths that the task may read without a policy."""
        base = f"nomad/jobs/{self.job_id}"
        return (
            "nomad/jobs",
            base,
            f"{base}/{self.group}",
            f"{base}/{self.group}/{self.task}",
        )


class Rights(Protocol):
    """The answers of access control about one caller.

    A namespace is matched by a rule with exactly its name, or else by the closest pattern: the one
    whose fixed characters cover most of it. Only that one rule counts. So a rule for a namespace
    replaces those of wider patterns.
    """

    @property
    def is_management(self) -> bool: ...

    @property
    def workload(self) -> Workload | None: ...

    def allows_namespace(self, namespace: str, capability: str) -> bool:
        """With namespace `*`: whether the capability is granted in any namespace."""
        ...

    def sees_namespace(self, namespace: str) -> bool:
        """Returns whether anything is granted in the namespace."""
        ...

    def allows_variable(self, namespace: str, path: str, capability: str) -> bool: ...

    def allows_some_variable(self, namespace: str, capability: str) -> bool:
        """Returns whether there are paths of the namespace for which the capability is granted."""
        ...

    def may_search_variables(self, namespace: str) -> bool:
        """Returns whether there is any rule for variables of the namespace, a denial too."""
        ...

    def allows_node_pool(self, pool: str, capability: str) -> bool: ...

    @property
    def may_search_node_pools(self) -> bool: ...

    def allows_host_volume(self, name: str, capability: str) -> bool: ...

    def allows_operator(self, capability: str) -> bool: ...

    def allows_coarse(self, topic: str, access: str) -> bool:
        """Returns whether `node`, `agent`, `operator`, `quota` or `plugin` may be accessed so:
        `read`, `write`, or `list` of plugins."""
        ...


class ManagementRights:
    """Everything is allowed: a management token, or access control that is off."""

    is_management = True
    workload = None
    may_search_node_pools = True

    def allows_namespace(self, namespace: str, capability: str) -> bool:
        return True

    def sees_namespace(self, namespace: str) -> bool:
        return True

    def allows_variable(self, namespace: str, path: str, capability: str) -> bool:
        return True

    def allows_some_variable(self, namespace: str, capability: str) -> bool:
        return True

    def may_search_variables(self, namespace: str) -> bool:
        return True

    def allows_node_pool(self, pool: str, capability: str) -> bool:
        return True

    def allows_host_volume(self, name: str, capability: str) -> bool:
        return True

    def allows_operator(self, capability: str) -> bool:
        return True

    def allows_coarse(self, topic: str, access: str) -> bool:
        return True


MANAGEMENT = ManagementRights()


@dataclass(frozen=True, slots=True)
class PolicyRights:
    """The rights that a set of policies gives; without any, nothing is allowed."""

    namespaces: Grants = field(default_factory=dict)
    variables: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    node_pools: Grants = field(default_factory=dict)
    host_volumes: Grants = field(default_factory=dict)
    operator: frozenset[str] = _NOTHING
    coarse: Mapping[str, str] = field(default_factory=dict)
    workload: Workload | None = None
    _known: Grants = field(default_factory=dict, compare=False)
    """The capabilities of the namespaces that were asked about."""

    is_management = False

    def allows_namespace(self, namespace: str, capability: str) -> bool:
        if namespace == ALL_NAMESPACES:
            return any(_grants(each, capability) for each in self.namespaces.values())
        return _grants(self._in_namespace(namespace), capability)

    def sees_namespace(self, namespace: str) -> bool:
        if namespace == ALL_NAMESPACES:
            return any(each and DENY not in each for each in self.namespaces.values())
        found = self._in_namespace(namespace)
        return bool(found) and DENY not in found

    def _in_namespace(self, namespace: str) -> frozenset[str]:
        found = self._known.get(namespace)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = _of_closest(self.namespaces, namespace)
            self._known[namespace] = found
        return found

    def allows_variable(self, namespace: str, path: str, capability: str) -> bool:
        exact = self.variables.get((namespace, path))
        if exact is not None:
            return _grants(exact, capability)
        workload = self.workload
        if (
            workload is not None
            and workload.namespace == namespace
            and path in workload.variable_paths
            and capability in _WORKLOAD_VARIABLES
        ):
            return True
        patterns = {
            f"{of_namespace}\0{of_path}": granted
            for (of_namespace, of_path), granted in self.variables.items()
            if matches(of_namespace, namespace) and matches(of_path, path)
        }
        return _grants(_of_closest(patterns, f"{namespace}\0{path}"), capability)

    def allows_some_variable(self, namespace: str, capability: str) -> bool:
        return any(
            matches(pattern, namespace) and _grants(granted, capability)
            for (pattern, _), granted in self.variables.items()
        )

    def may_search_variables(self, namespace: str) -> bool:
        return any(
            namespace == ALL_NAMESPACES or matches(pattern, namespace)
            for pattern, _ in self.variables
        )

    def allows_node_pool(self, pool: str, capability: str) -> bool:
        return _grants(_of_closest(self.node_pools, pool), capability)

    @property
    def may_search_node_pools(self) -> bool:
        return any(each and DENY not in each for each in self.node_pools.values())

    def allows_host_volume(self, name: str, capability: str) -> bool:
        return _grants(_of_closest(self.host_volumes, name), capability)

    def allows_operator(self, capability: str) -> bool:
        return _grants(self.operator, capability)

    def allows_coarse(self, topic: str, access: str) -> bool:
        granted = self.coarse.get(topic, DENY)
        if granted == DENY:
            return False
        return _PRIVILEGE.index(granted) >= _PRIVILEGE.index(access)


def compile_rights(policies: Iterable[PolicyRules], workload: Workload | None = None) -> Rights:
    """Returns what all policies together allow. For the same pattern denials win over grants."""
    namespaces: Grants = {}
    variables: dict[tuple[str, str], frozenset[str]] = {}
    node_pools: Grants = {}
    host_volumes: Grants = {}
    operator, coarse = _NOTHING, dict[str, str]()
    for rules in policies:
        for rule in rules.namespaces or ():
            _add(namespaces, rule.name, rule.capabilities)
            for path in rule.variables.paths if rule.variables else ():
                key = (rule.name, path.path_spec)
                variables[key] = _merged(variables.get(key), path.capabilities)
        _add_named(node_pools, rules.node_pools)
        _add_named(host_volumes, rules.host_volumes)
        if rules.operator is not None:
            operator = _merged(operator, rules.operator.capabilities)
            _raise(coarse, "operator", DENY if DENY in operator else rules.operator.policy)
        for topic in ("agent", "node", "quota", "plugin"):
            found = getattr(rules, topic)
            if found is not None:
                _raise(coarse, topic, found.policy)
    return PolicyRights(namespaces, variables, node_pools, host_volumes, operator, coarse, workload)


NO_RIGHTS: Rights = PolicyRights()
"""Nothing is allowed: the rights of a caller with a policy that cannot be read."""


def rights_of_texts(texts: Iterable[str], workload: Workload | None = None) -> Rights:
    """Returns what policies with these texts allow together.

    If one of them cannot be read (an older version stored it, or a snapshot brought it), nothing is
    allowed, whatever the others grant: what it denied is unknown.
    """
    read = [readable_rules(text) for text in texts]
    known = [rules for rules in read if rules is not None]
    return NO_RIGHTS if len(known) < len(read) else compile_rights(known, workload)


def _add_named(grants: Grants, rules: Iterable[NamedRule] | None) -> None:
    for rule in rules or ():
        _add(grants, rule.name, rule.capabilities)


def _add(grants: Grants, pattern: str, capabilities: Iterable[str] | None) -> None:
    grants[pattern] = _merged(grants.get(pattern), capabilities)


def _merged(before: frozenset[str] | None, more: Iterable[str] | None) -> frozenset[str]:
    every = (before or _NOTHING) | frozenset(more or ())
    return frozenset((DENY,)) if DENY in every else every


def _raise(coarse: dict[str, str], topic: str, policy: str) -> None:
    if policy:
        coarse[topic] = max(coarse.get(topic, policy), policy, key=_PRIVILEGE.index)


def _grants(capabilities: frozenset[str], capability: str) -> bool:
    return capability in capabilities and DENY not in capabilities


def _of_closest(grants: Grants, name: str) -> frozenset[str]:
    exact = grants.get(name)
    if exact is not None:
        return exact
    fitting = [pattern for pattern in grants if "*" in pattern and matches(pattern, name)]
    if not fitting:
        return _NOTHING
    # The closest: the pattern that leaves the fewest characters of the name open.
    return grants[min(fitting, key=lambda pattern: (pattern.count("*") - len(pattern), pattern))]


def matches(pattern: str, name: str) -> bool:
    """Returns whether the name fits the pattern, in which `*` stands for any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    last = rest.pop()
    if not name.startswith(first) or not name.endswith(last):
        return False
    place, end = len(first), len(name) - len(last)
    for part in rest:
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return place <= end
