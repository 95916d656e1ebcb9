"""The static checks of a group as masks over all nodes, in the order in which they are made.

Masks depend on the nodes alone and are kept in the columns' memo, so that jobs that ask the same
share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from orchgit.model.constraint import Constraint
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.resources import Port
from orchgit.scheduler.feasibility.devices import has_devices
from orchgit.scheduler.feasibility.operands import (
    DISTINCT_HOSTS,
    DISTINCT_PROPERTY,
    TRUE_WORDS,
    holds,
)
from orchgit.scheduler.feasibility.targets import escapes_class, resolve
from orchgit.scheduler.placement.networks import DEFAULT_NETWORK
from orchgit.scheduler.ports import Mask, NodeColumns, Numbers
from orchgit.version_constraints import parse_version

ALL_POOLS = "all"
JOB, GROUP = "job", "group"
_FIRST_WITH_BRIDGE = (0, 12, 0)


@dataclass(frozen=True, slots=True)
class Check:
    """One reason to leave nodes out; `mask` marks the nodes that pass. `level` names the level of
    the class cache."""

    level: str
    reason: str
    mask: Mask


def by_node(columns: NodeColumns, key: object, test: Callable[[Node], bool]) -> Mask:
    """Returns the nodes that pass `test`, cached by `key`; `test` must depend on the node and `key`
    only."""
    mask = columns.memo.get(("mask", key))
    if mask is None:
        mask = np.fromiter(
            (node is not None and test(node) for node in columns.nodes),
            dtype=np.bool_,
            count=len(columns.nodes),
        )
        columns.memo[("mask", key)] = mask
    return mask


def values_of(columns: NodeColumns, target: str) -> tuple[Numbers, list[str | None]]:
    """Returns (code per node, the target's values by code); None is the value of nodes without the
    target."""
    known = columns.memo.get(("values", target))
    if known is None:
        codes = np.empty(len(columns.nodes), dtype=np.int64)
        index: dict[str | None, int] = {}
        for row, node in enumerate(columns.nodes):
            value = None if node is None else resolve(target, node)
            codes[row] = index.setdefault(value, len(index))
        known = (codes, list(index))
        columns.memo[("values", target)] = known
    return known


def constraint_mask(columns: NodeColumns, left: str, operand: str, right: str) -> Mask:
    """Returns the nodes on which `left operand right` holds."""
    key = ("constraint", left, operand, right)
    mask = columns.memo.get(key)
    if mask is None:
        if right.startswith("${"):
            mask = by_node(
                columns, key, lambda node: holds(operand, resolve(left, node), resolve(right, node))
            )
        else:
            codes, values = values_of(columns, left)
            verdicts = np.array([holds(operand, value, right) for value in values], dtype=np.bool_)
            mask = verdicts[codes] if len(values) else np.zeros(0, dtype=np.bool_)
        columns.memo[key] = mask
    return mask


def candidate_mask(columns: NodeColumns, job: Job) -> Mask:
    """Returns the ready nodes in the job's pool and datacenters; cached until a node changes."""
    key = ("ready in place", job.node_pool, tuple(job.datacenters))
    mask = columns.memo.get(key)
    if mask is None:
        mask = columns.memo[key] = columns.ready & place_mask(columns, job)
    return cast(Mask, mask)


def place_mask(columns: NodeColumns, job: Job) -> Mask:
    """Returns the nodes in the job's pool and datacenters, ready or not."""
    globs = tuple(job.datacenters)
    return by_node(
        columns,
        ("place", job.node_pool, globs),
        lambda node: job.node_pool in (ALL_POOLS, node.node_pool) and in_datacenters(node, globs),
    )


def in_datacenters(node: Node, globs: Sequence[str]) -> bool:
    """Returns whether a glob matches the node's datacenter: `*` stands for any text, other
    characters for themselves."""
    return any(_glob_matches(glob, node.datacenter) for glob in globs)


def _glob_matches(glob: str, text: str) -> bool:
    """Returns whether the text matches. Each part is searched after the previous one; backtracking
    cannot match more."""
    first, *others = glob.split("*")
    if not others:
        return glob == text
    *middle, last = others
    if not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, max(at, end))
        if found < 0:
            return False
        at = found + len(part)
    return at <= end


def group_constraints(group: TaskGroup) -> list[Constraint]:
    """Returns the group's constraints, then those of its tasks."""
    constraints = list(group.constraints or ())
    for task in group.tasks:
        constraints += task.constraints or ()
    return constraints


def escapes(constraints: Sequence[Constraint]) -> bool:
    """Returns whether nodes of one computed class may differ in the constraints' targets."""
    return any(escapes_class(c.l_target) or escapes_class(c.r_target) for c in constraints)


def has_csi(group: TaskGroup) -> bool:
    return any(volume.type == "csi" for volume in (group.volumes or {}).values())


def job_checks(columns: NodeColumns, job: Job) -> list[Check]:
    return _constraint_checks(columns, JOB, job.constraints or [])


def group_checks(columns: NodeColumns, group: TaskGroup) -> list[Check]:
    drivers = frozenset(task.driver for task in group.tasks)
    checks = [
        Check(
            GROUP,
            "missing drivers",
            by_node(columns, ("drivers", drivers), lambda node: _has_drivers(node, drivers)),
        )
    ]
    checks += _constraint_checks(columns, GROUP, group_constraints(group))
    checks += _device_checks(columns, group)
    checks += _network_checks(columns, group)
    checks += _secret_checks(columns, group)
    return checks


def _constraint_checks(
    columns: NodeColumns, level: str, constraints: Sequence[Constraint]
) -> list[Check]:
    return [
        Check(
            level,
            f"{c.l_target} {c.operand} {c.r_target}",
            constraint_mask(columns, c.l_target, c.operand, c.r_target),
        )
        for c in constraints
        if c.operand not in (DISTINCT_HOSTS, DISTINCT_PROPERTY)
    ]


def _has_drivers(node: Node, drivers: frozenset[str]) -> bool:
    for driver in drivers:
        info = node.drivers.get(driver)
        if info is not None:
            if not (info.detected and info.healthy):
                return False
        elif node.attributes.get(f"driver.{driver}") not in TRUE_WORDS:
            return False
    return True


def _device_checks(columns: NodeColumns, group: TaskGroup) -> list[Check]:
    asks = [ask for task in group.tasks for ask in task.resources.devices or ()]
    if not asks:
        return []
    key = ("devices", tuple(f"{ask.name}/{ask.count}/{ask.constraints}" for ask in asks))
    return [
        Check(
            GROUP,
            "missing devices",
            by_node(columns, key, lambda node: has_devices(node, asks)),
        )
    ]


def _network_checks(columns: NodeColumns, group: TaskGroup) -> list[Check]:
    network = group.networks[0] if group.networks else None
    mode = (network.mode if network else "") or "host"
    if mode == "none":
        return []
    checks = [
        Check(
            GROUP,
            "missing network",
            by_node(columns, ("network", mode), lambda node: _has_network(node, mode)),
        )
    ]
    for port in (network.reserved_ports or []) + (network.dynamic_ports or []) if network else []:
        checks += _host_network_checks(columns, port)
    return checks


def _has_network(node: Node, mode: str) -> bool:
    networks = node.node_resources.networks or ()
    if any((network.mode or "host") == mode for network in networks):
        return True
    if mode != "bridge":
        return False
    # Agents report bridge networks since version 0.12; older ones may have one.
    version = parse_version(node.attributes.get("nomad.version", ""))
    return version is not None and version.segments < _FIRST_WITH_BRIDGE


def _host_network_checks(columns: NodeColumns, port: Port) -> list[Check]:
    """Returns the checks of the port's host network; an interpolated name is checked for each value
    on the nodes."""
    name = port.host_network
    if not name.startswith("${"):
        return [_alias_check(name, port, _alias_mask(columns, name))] if name else []
    codes, values = values_of(columns, name)
    checks = []
    for code, value in enumerate(values):
        elsewhere = codes != code
        if value is None:
            reason = f'invalid host network "{name}" template for port "{port.label}"'
            checks.append(Check(GROUP, reason, elsewhere))
        else:
            checks.append(_alias_check(value, port, elsewhere | _alias_mask(columns, value)))
    return checks


def _alias_check(alias: str, port: Port, mask: Mask) -> Check:
    return Check(GROUP, f'missing host network "{alias}" for port "{port.label}"', mask)


def _alias_mask(columns: NodeColumns, alias: str) -> Mask:
    return by_node(columns, ("alias", alias), lambda node: _has_alias(node, alias))


def _has_alias(node: Node, alias: str) -> bool:
    """Returns whether the node has the host network; a node without named host networks has the
    default one."""
    networks = node.node_resources.node_networks or ()
    if alias == DEFAULT_NETWORK and not networks:
        return True
    return any(address.alias == alias for network in networks for address in network.addresses)


def _secret_checks(columns: NodeColumns, group: TaskGroup) -> list[Check]:
    providers = frozenset(
        str(secret.get("Provider", "")) for task in group.tasks for secret in task.secrets or ()
    )
    if not providers:
        return []
    return [
        Check(
            GROUP,
            "missing secrets provider",
            by_node(
                columns,
                ("secrets", providers),
                lambda node: all(
                    f"plugins.secrets.{name}.version" in node.attributes for name in providers
                ),
            ),
        )
    ]
