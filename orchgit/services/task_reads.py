"""What tasks read of the servers while they run: variables and services, each with the rights of
the task's own identity."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec

from orchgit.acl.rights import MANAGEMENT, Rights
from orchgit.errors import InvalidInputError, NotAllowedError
from orchgit.model.allocation import Allocation
from orchgit.model.variable import StoredVariable, variable_key
from orchgit.model.workload_identity import IdentityClaims, identities_of
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.identities import claims_of
from orchgit.services.secrets.variables import VariableUseCases
from orchgit.state.changes import target
from orchgit.state.service_catalog import all_services
from orchgit.state.snapshot import Snapshot
from orchgit.wire.messages import TaskRead, TaskReadValue

MAX_READS = 5_000
"""Of one node at the same time."""
MAX_NAME_CHARACTERS = 1_000
MAX_WAIT_S = 600.0
_GATHER_S = 0.02
"""How long changes are waited for after the first: several entries of a log come together."""
_SHARE = 20
_MAX_PAUSE_S = 2.0
"""The catalog of services is read again after this many times what reading took, and this pause at
most."""


class TaskReadKind(StrEnum):
    VARIABLE = "variable"
    VARIABLES = "variables"
    """The variables below a prefix, without their items."""
    SERVICE = "service"
    SERVICES = "services"
    """The names and tags of all services of the namespace."""


_SERVICE_KINDS = (TaskReadKind.SERVICE, TaskReadKind.SERVICES)
RightsOfTask = Callable[[Snapshot, IdentityClaims], Rights]


def everything(snapshot: Snapshot, claims: IdentityClaims) -> Rights:
    """The rights of any task while access control is off."""
    return MANAGEMENT


ServicesByName = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Listed:
    """The services of a namespace at an index; `until_s`: they are not read again before."""

    index: int
    until_s: float
    services: ServicesByName


class _Catalog:
    """The services of namespaces, shared by all readers. At scale every change of an allocation is
    a change of services, so the catalog is not read more often than its size allows."""

    def __init__(self) -> None:
        self._listed: dict[str, _Listed] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def refresh(self, context: UseCaseContext, namespaces: Iterable[str]) -> None:
        """Reads the services of these namespaces again where they may have changed: in a thread,
        and once for all who ask for it meanwhile."""
        newest = context.state.store.watch.index(("allocations",))
        for namespace in namespaces:
            known = self._listed.get(namespace)
            now_s = context.clock.monotonic_s()
            if known is not None and (known.index >= newest or now_s < known.until_s):
                continue
            if namespace not in self._reading:
                work = asyncio.ensure_future(self._read(context, namespace))
                self._reading[namespace] = work
                work.add_done_callback(partial(self._ended, namespace))
            await asyncio.shield(self._reading[namespace])

    def _ended(self, namespace: str, _: asyncio.Task[None]) -> None:
        del self._reading[namespace]

    async def _read(self, context: UseCaseContext, namespace: str) -> None:
        def read() -> tuple[int, ServicesByName]:
            found: ServicesByName = {}
            with context.snapshot() as snapshot:
                for each in all_services(snapshot, namespace):
                    each.pop("ModifyIndex")  # it changes while the service stays the same
                    found.setdefault(each["ServiceName"], []).append(each)
                return snapshot.table_indexes.newest("allocations"), found

        began_s = context.clock.monotonic_s()
        index, found = await asyncio.to_thread(read)
        ended_s = context.clock.monotonic_s()
        pause_s = min(_SHARE * (ended_s - began_s), _MAX_PAUSE_S)
        self._listed[namespace] = _Listed(index, ended_s + pause_s, found)

    def of(self, index: int, namespace: str, now_s: float) -> tuple[ServicesByName, float]:
        """Returns the services by name, and after how many seconds to read them again (0: when
        something changes). `index` is the newest of the allocations."""
        known = self._listed.get(namespace)
        if known is None:
            return {}, _GATHER_S
        if known.index >= index:
            return known.services, 0.0
        return known.services, max(known.until_s - now_s, _GATHER_S)


@dataclass(frozen=True, slots=True)
class TaskReadUseCases:
    context: UseCaseContext
    variables: VariableUseCases
    rights_of_task: RightsOfTask = everything
    catalog: _Catalog = field(default_factory=_Catalog)

    async def read(
        self, node_id: str, node_secret: str, reads: Sequence[TaskRead], wait_s: float
    ) -> list[TaskReadValue]:
        """Returns the values that are not those seen, as soon as there is one, at most after
        `wait_s`.

        Raises NotAllowedError for a wrong secret of the node, and InvalidInputError for too many
        reads.
        """
        if len(reads) > MAX_READS or any(len(each.name) > MAX_NAME_CHARACTERS for each in reads):
            raise InvalidInputError(
                f"cannot read so much for tasks: at most {MAX_READS} things at once, with names of "
                f"at most {MAX_NAME_CHARACTERS} characters"
            )
        clock, watch = self.context.clock, self.context.state.store.watch
        end_s = clock.monotonic_s() + min(wait_s, MAX_WAIT_S)
        targets = {"acl_policies", *map(_target, reads)}
        listed = {each.namespace for each in reads if each.kind in _SERVICE_KINDS}
        while True:
            if listed:
                with self.context.snapshot() as snapshot:
                    self._check_node(snapshot, node_id, node_secret)
                await self.catalog.refresh(self.context, listed)
            with self.context.snapshot() as snapshot:
                self._check_node(snapshot, node_id, node_secret)
                found, again_s = self._values(snapshot, node_id, reads)
                index = snapshot.table_indexes.newest("variables", "allocations", "acl_policies")
            left_s = end_s - clock.monotonic_s()
            if found or left_s <= 0:
                return found
            if again_s:
                await watch.wait(targets - {"allocations"}, index, min(again_s, left_s))
            else:
                await watch.wait(targets, index, left_s)
                await clock.sleep(_GATHER_S)

    def _check_node(self, snapshot: Snapshot, node_id: str, node_secret: str) -> None:
        node = snapshot.nodes.get(node_id)
        if node is None or not hmac.compare_digest(node.secret_id, node_secret):
            raise NotAllowedError(
                f"cannot read for tasks of node {node_id}: it is unknown, or the secret is not the "
                "one it was registered with"
            )

    def _values(
        self, snapshot: Snapshot, node_id: str, reads: Sequence[TaskRead]
    ) -> tuple[list[TaskReadValue], float]:
        """Returns the values that changed, and after how many seconds to look again (0: when
        something changes)."""
        rights: dict[tuple[str, str], tuple[Allocation, Rights] | None] = {}
        changed, again_s = [], 0.0
        for position, read in enumerate(reads):
            key = (read.alloc_id, read.task)
            if key not in rights:
                rights[key] = self._rights(snapshot, node_id, read)
            known = rights[key]
            value, wait_s = (None, 0.0) if known is None else self._value(snapshot, read, *known)
            if wait_s:  # what is known is older than this snapshot
                again_s = max(again_s, wait_s)
                continue
            data = msgspec.json.encode(value)
            digest = hashlib.blake2b(data, digest_size=16).hexdigest()
            if digest != read.seen:
                found = value is not None
                changed.append(TaskReadValue(position, digest, found, data if found else b""))
        return changed, again_s

    def _rights(
        self, snapshot: Snapshot, node_id: str, read: TaskRead
    ) -> tuple[Allocation, Rights] | None:
        """Returns the allocation and what its task may do; None for one of another node."""
        alloc = snapshot.allocations.get(read.alloc_id)
        if alloc is None or alloc.node_id != node_id or alloc.is_terminal:
            return None
        job = snapshot.job_versions.of_allocation(alloc)
        group = job.group(alloc.task_group) if job is not None else None
        task = group.task(read.task) if group is not None else None
        if job is None or task is None:
            return None
        default = next(each for each in identities_of(task) if each.is_default)
        claims = claims_of(job, alloc, task.name, default, self.context.now_ns(), "")
        return alloc, self.rights_of_task(snapshot, claims)

    def _value(
        self, snapshot: Snapshot, read: TaskRead, alloc: Allocation, rights: Rights
    ) -> tuple[Any, float]:
        """Returns the value, None where there is none or the task may not see it, and after how
        many seconds to look again."""
        namespace = read.namespace
        match read.kind:
            case TaskReadKind.VARIABLE:
                if not rights.allows_variable(namespace, read.name, "read"):
                    return None, 0.0
                found = snapshot.variables.get(namespace, read.name)
                if found is None:
                    return None, 0.0
                return {**_metadata(found), "Items": self.variables.items(found)}, 0.0
            case TaskReadKind.VARIABLES:
                listed = snapshot.variables.all(namespace, read.name)
                allows = rights.allows_variable
                return [
                    _metadata(each) for each in listed if allows(namespace, each.path, "list")
                ], 0.0
            case TaskReadKind.SERVICE | TaskReadKind.SERVICES:
                may = namespace == alloc.namespace or rights.allows_namespace(namespace, "read-job")
                if not may:
                    return None, 0.0
                index = snapshot.table_indexes.newest("allocations")
                now_s = self.context.clock.monotonic_s()
                services, again_s = self.catalog.of(index, namespace, now_s)
                if read.kind == TaskReadKind.SERVICES:
                    return _names(services), again_s
                return services.get(read.name, []), again_s
        return None, 0.0


def _target(read: TaskRead) -> str:
    match read.kind:
        case TaskReadKind.VARIABLE:
            return target("variables", variable_key(read.namespace, read.name))
        case TaskReadKind.VARIABLES:
            return "variables"
    return "allocations"


def _metadata(variable: StoredVariable) -> dict[str, Any]:
    return {
        "Namespace": variable.namespace,
        "Path": variable.path,
        "CreateIndex": variable.create_index,
        "ModifyIndex": variable.modify_index,
        "CreateTime": variable.create_time_ns,
        "ModifyTime": variable.modify_time_ns,
    }


def _names(services: ServicesByName) -> list[dict[str, Any]]:
    return [
        {
            "ServiceName": name,
            "Tags": sorted({tag for each in services[name] for tag in each["Tags"]}),
        }
        for name in sorted(services)
    ]
