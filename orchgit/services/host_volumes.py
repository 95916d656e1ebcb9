"""Use cases of dynamic host volumes and the claims that tie groups to them (invariant 7)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from msgspec.structs import replace

from orchgit.errors import InvalidInputError, NotFoundError, RefusedError
from orchgit.model.allocation import Allocation
from orchgit.model.base import datetime_of_ns
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.mkdir_parameters import read_mkdir_parameters
from orchgit.model.node import Node, NodeEvent
from orchgit.model.volume import HostVolume, VolumeCapability
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.nodes import UpdateNodeStatus
from orchgit.replication.commands.volumes import (
    DeleteHostVolume,
    DeleteVolumeClaim,
    UpsertHostVolume,
)
from orchgit.scheduler.feasibility.operands import holds
from orchgit.scheduler.feasibility.targets import resolve
from orchgit.scheduler.placement.fit import volume_source
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job
from orchgit.state.snapshot import Snapshot
from orchgit.wire.messages import VolumeResult

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
EVERY_POOL = "all"
BUILT_IN_PLUGIN = "mkdir"
_PENDING = "pending"
_SUBSYSTEM, _VOLUME_ID, _ERROR = "Host Volume", "volume_id", "error"
_WRITER = VolumeCapability("single-node-writer", "file-system")


async def put_host_volume(context: UseCaseContext, volume: HostVolume) -> HostVolume:
    """Creates a volume, or registers an existing directory (`host_path` set).

    A created volume is placed on `node_id`, or on the first ready node of its pool, and is
    `pending` until the node's agent has made it and reported it (`volumes_made`).
    """
    _check(volume)

    def read() -> tuple[HostVolume | None, Node]:
        with context.snapshot() as snapshot:
            known = snapshot.host_volumes.get(volume.id) if volume.id else None
            node = _home(snapshot, volume)
            _check_unique(snapshot, volume, node)
            return known, node

    known, node = await asyncio.to_thread(read)  # it reads every node
    now_ns = context.now_ns()
    volume = replace(
        volume,
        id=volume.id or context.ids.new(),
        node_id=node.id,
        node_pool=node.node_pool,
        plugin_id=volume.plugin_id or BUILT_IN_PLUGIN,
        requested_capabilities=volume.requested_capabilities or [_WRITER],
        host_path=volume.host_path or (known.host_path if known else ""),
        capacity_bytes=known.capacity_bytes if known else volume.capacity_bytes,
        state=known.state if known else _PENDING,
        create_time_ns=known.create_time_ns if known else now_ns,
        modify_time_ns=now_ns,
    )
    applied = await context.propose(UpsertHostVolume(now_ns=now_ns, volume=volume))
    create_index = known.create_index if known else applied.index
    return replace(volume, create_index=create_index, modify_index=applied.index)


async def wait_for_volume(
    context: UseCaseContext, volume: HostVolume, timeout_s: float
) -> HostVolume:
    """Returns the volume once its node has made it; as it is when the time ends first. Raises
    RefusedError with the words of a plugin that cannot make it."""
    store = context.state.store
    until_s = context.clock.monotonic_s() + timeout_s
    while True:
        with context.snapshot() as snapshot:
            found = snapshot.host_volumes.get(volume.id)
            index = snapshot.index
            if found is None:
                raise RefusedError(_why_not_made(snapshot, volume))
        left_s = until_s - context.clock.monotonic_s()
        if found.state == "ready" or left_s <= 0:
            return found
        await store.watch.wait(["host_volumes"], index, left_s)


async def take_volume_results(
    context: UseCaseContext, node_id: str, results: Sequence[VolumeResult]
) -> None:
    """Stores the capacity of what a node's plugins made. A volume that its plugin could not create
    is deleted again, and an event of the node says why."""
    for result in results:
        with context.snapshot() as snapshot:
            volume = snapshot.host_volumes.get(result.volume_id)
            node = snapshot.nodes.get(node_id)
        if volume is None or node is None or volume.node_id != node_id:
            continue
        now_ns = context.now_ns()
        if result.error and volume.state == _PENDING:
            event = NodeEvent(
                message=f"Host volume {volume.name} was not created: {result.error}",
                subsystem=_SUBSYSTEM,
                details={_VOLUME_ID: volume.id, _ERROR: result.error},
                timestamp=datetime_of_ns(now_ns),
            )
            await context.propose(
                UpdateNodeStatus(
                    now_ns=now_ns,
                    node_id=node_id,
                    status=node.status,
                    description=node.status_description,
                    event=event,
                )
            )
            await context.propose(
                DeleteHostVolume(now_ns=now_ns, namespace=volume.namespace, volume_id=volume.id)
            )
        elif not result.error and volume.capacity_bytes != result.capacity_bytes:
            volume = replace(volume, capacity_bytes=result.capacity_bytes)
            await context.propose(UpsertHostVolume(now_ns=now_ns, volume=volume))


def _why_not_made(snapshot: Snapshot, volume: HostVolume) -> str:
    node = snapshot.nodes.get(volume.node_id)
    for event in reversed(node.events if node is not None else ()):
        if (event.details or {}).get(_VOLUME_ID) == volume.id:
            return f'could not create volume "{volume.name}": {(event.details or {})[_ERROR]}'
    return f'could not create volume "{volume.name}": it was deleted meanwhile'


def volumes_made(snapshot: Snapshot, node: Node) -> list[HostVolume]:
    """Returns the pending volumes that the node reports, as ready and with their paths."""
    made = {volume.id: volume for volume in node.host_volumes.values() if volume.id}
    return [
        replace(volume, state="ready", host_path=made[volume.id].path)
        for volume in snapshot.host_volumes.all(None, node_id=node.id)
        if volume.state == "pending" and volume.id in made
    ]


async def delete_host_volume(context: UseCaseContext, namespace: str, volume_id: str) -> int:
    """Deletes a volume. Raises RefusedError while a claim or a live allocation uses it."""
    with context.snapshot() as snapshot:
        volume = snapshot.host_volumes.get(volume_id)
        if volume is None or volume.namespace != namespace:
            raise NotFoundError("volume not found")
        claims = [
            claim for claim in snapshot.volume_claims.all(namespace) if claim.volume_id == volume_id
        ]
        held = snapshot.allocations.occupying_node(volume.node_id)
        users = [each for each in held if _uses(snapshot, each, volume.name)]
    if users:
        names = " ".join(sorted(each.id for each in users))
        raise RefusedError(f"volume {volume_id} in use by allocations: [{names}]")
    if claims:
        jobs = sorted({claim.job_id for claim in claims})
        raise RefusedError(
            f"volume {volume_id} in use by claims of {', '.join(jobs)}; delete the claims first"
        )
    applied = await context.propose(
        DeleteHostVolume(now_ns=context.now_ns(), namespace=namespace, volume_id=volume_id)
    )
    return applied.index


async def delete_volume_claim(context: UseCaseContext, claim_id: str) -> int:
    """Frees a group from its volume.

    The group's workload keeps running; a job that waits for the volume is evaluated again.
    """
    with context.snapshot() as snapshot:
        claim = snapshot.volume_claims.get(claim_id)
        if claim is None:
            raise NotFoundError("volume claim not found")
        job = snapshot.jobs.get(claim.namespace, claim.job_id)
        waits = bool(snapshot.evaluations.blocked_of_job(claim.namespace, claim.job_id))
    applied = await context.propose(DeleteVolumeClaim(now_ns=context.now_ns(), claim_id=claim_id))
    if job is not None and waits:
        evaluation = evaluation_for_job(context, job, EvalTrigger.QUEUED_ALLOCS)
        await context.propose(UpsertEvaluations(now_ns=context.now_ns(), evaluations=[evaluation]))
    return applied.index


def _uses(snapshot: Snapshot, allocation: Allocation, volume_name: str) -> bool:
    job = snapshot.job_versions.of_allocation(allocation)
    group = job.group(allocation.task_group) if job is not None else None
    requests = (group.volumes or {}).values() if group is not None else ()
    return any(
        request.type == "host" and volume_source(request, allocation.name) == volume_name
        for request in requests
    )


def _check(volume: HostVolume) -> None:
    if not volume.name:
        raise RefusedError("volume validation failed: missing name")
    if not _NAME.fullmatch(volume.name) or volume.name in (".", ".."):
        raise RefusedError(f'volume validation failed: invalid name "{volume.name}"')
    if volume.host_path and not volume.host_path.startswith("/"):
        raise RefusedError("volume validation failed: host path must be absolute")
    if volume.host_path and ("\0" in volume.host_path or ".." in volume.host_path.split("/")):
        raise RefusedError("volume validation failed: host path must not have '..' or NUL in it")
    if volume.plugin_id in ("", BUILT_IN_PLUGIN) and not volume.host_path:
        try:
            read_mkdir_parameters(volume.parameters or {})
        except InvalidInputError as error:
            raise RefusedError(f"volume validation failed: {error}") from None
    low, high = volume.requested_capacity_min_bytes, volume.requested_capacity_max_bytes
    if high and low > high:
        raise RefusedError(
            f"volume validation failed: capacity_max ({high}) must be larger than capacity_min "
            f"({low})"
        )


def _home(snapshot: Snapshot, volume: HostVolume) -> Node:
    if volume.node_id:
        node = snapshot.nodes.get(volume.node_id)
        if node is None:
            raise RefusedError(f'volume validation failed: node "{volume.node_id}" not found')
        return node
    if volume.host_path:
        raise RefusedError("volume validation failed: a registered volume needs a node id")
    pool = volume.node_pool or "default"
    in_pool = [
        node
        for node in snapshot.nodes.all()
        if node.is_ready and pool in (node.node_pool, EVERY_POOL)
    ]
    if not in_pool:
        raise RefusedError(
            f'could not place volume "{volume.name}": no ready node in pool "{pool}"'
        )
    having = {each.node_id for each in snapshot.host_volumes.all(None) if each.name == volume.name}
    able = [node for node in in_pool if _suits(node, volume)]
    free = [node for node in able if node.id not in having]
    if not free:
        raise RefusedError(
            f'could not place volume "{volume.name}": no node meets constraints: '
            f"{len(able) - len(free)} nodes had existing volume, 0 nodes filtered by node pool "
            f"governance, {len(in_pool) - len(able)} nodes were infeasible"
        )
    return free[0]


def _suits(node: Node, volume: HostVolume) -> bool:
    """Agents of earlier versions do not say that they have the built-in plugin."""
    plugin = f"plugins.host_volume.{volume.plugin_id}.version"
    if volume.plugin_id not in ("", BUILT_IN_PLUGIN) and plugin not in node.attributes:
        return False
    return all(
        holds(
            str(each.get("Operand", "") or "="),
            resolve(str(each.get("LTarget", "")), node),
            resolve(str(each.get("RTarget", "")), node),
        )
        for each in volume.constraints or ()
    )


def _check_unique(snapshot: Snapshot, volume: HostVolume, node: Node) -> None:
    """Refuses a second volume of the same name on one node."""
    for other in snapshot.host_volumes.all(None, node_id=node.id):
        if other.name == volume.name and other.id != volume.id:
            raise RefusedError(
                f'volume validation failed: node {node.id} has a volume "{volume.name}" already'
            )
    static = node.host_volumes.get(volume.name)
    if static is not None and not static.id:
        raise RefusedError(
            f'volume validation failed: node {node.id} has a static volume "{volume.name}"'
        )
