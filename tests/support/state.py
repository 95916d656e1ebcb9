"""A store, a running one-member replicated state, and the invariants to check at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from orchgit.clock import Clock, SystemClock
from orchgit.ids import IdSource, RandomIds
from orchgit.model.allocation import Allocation
from orchgit.model.node import Node
from orchgit.replication.commands.codec import Command, encode
from orchgit.replication.events import Effects
from orchgit.replication.machine import apply_entry
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.state.job_status import implied_status, read_inputs
from orchgit.state.snapshot import StateReads
from orchgit.state.store import Store
from tests.support.factories import NOW_NS


def open_store(directory: Path) -> Store:
    """A fresh store; the caller closes it."""
    return Store.open(directory / "state" / "state.db")


def apply(store: Store, *commands: Command, effects: Effects | None = None) -> list[object]:
    """Apply commands to a store as the next log entries, without a log; raise what refuses one."""
    effects = effects if effects is not None else Effects()
    txn = store.begin()
    log_index, results = txn.meta.log_index(), []
    for command in commands:
        log_index += 1
        command.now_ns = command.now_ns or NOW_NS
        results.append(apply_entry(txn, log_index + txn.offset, encode(command), effects))
    index = log_index + txn.offset
    store.publish(txn.commit(index), index)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


@asynccontextmanager
async def running_state(
    directory: Path,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    **options: Any,
) -> AsyncIterator[ReplicatedState]:
    """A lone server's replicated state over real files; invariants are checked at the end.

    `options` are fields of ReplicationConfig.
    """
    config = ReplicationConfig(directory, "server-1", **options)
    state = ReplicatedState(config, clock or SystemClock(), ids or RandomIds())
    await state.start()
    try:
        yield state
        with state.store.snapshot() as snapshot:
            check_invariants(snapshot)
    finally:
        await state.stop()


def check_invariants(snapshot: StateReads) -> None:
    """What must hold at every index (docs/invariants.md); AssertionError names the object."""
    allocations = snapshot.allocations.all()
    nodes = {node.id: node for node in snapshot.nodes.all()}
    _check_nodes(allocations, nodes)
    _check_jobs(snapshot, allocations)
    _check_claims(snapshot)
    _check_indexes(snapshot, allocations)


def _check_nodes(allocations: list[Allocation], nodes: dict[str, Node]) -> None:
    """Invariant 3: no node is over-committed in any resource or port."""
    by_node = defaultdict(list)
    for allocation in allocations:
        if not allocation.is_terminal:
            by_node[allocation.node_id].append(allocation)
    for node_id, placed in by_node.items():
        if node_id in nodes:
            _check_capacity(nodes[node_id], placed)
        _check_ports(node_id, placed)


def _check_capacity(node: Node, placed: list[Allocation]) -> None:
    totals = [one.allocated_resources.total() for one in placed if one.allocated_resources]
    has, kept = node.node_resources, node.reserved_resources
    limits = {
        "cpu_shares": has.cpu.cpu_shares - kept.cpu.cpu_shares,
        "memory_mb": has.memory.memory_mb - kept.memory.memory_mb,
        "disk_mb": has.disk.disk_mb - kept.disk.disk_mb,
    }
    for name, limit in limits.items():
        used = sum(getattr(total, name) for total in totals)
        assert used <= limit, f"node {node.id} is over-committed: {used} of {limit} {name}"
    cores = Counter(core for total in totals for core in total.cores)
    twice = [core for core, count in cores.items() if count > 1]
    assert not twice, f"node {node.id}: cores {twice} are given twice"


def _check_ports(node_id: str, placed: list[Allocation]) -> None:
    ports: Counter[tuple[str, int]] = Counter()
    for allocation in placed:
        resources = allocation.allocated_resources
        for port in (resources.shared.ports if resources else None) or ():
            if not port.ignore_collision:
                ports[port.host_ip, port.value] += 1
    twice = [port for port, count in ports.items() if count > 1]
    assert not twice, f"node {node_id}: ports {twice} are given twice"


def _check_jobs(snapshot: StateReads, allocations: list[Allocation]) -> None:
    """Every allocation's job version is there; live counts and job statuses are what they imply."""
    live: Counter[tuple[str, str]] = Counter()
    for allocation in allocations:
        key = (allocation.namespace, allocation.job_id)
        version = snapshot.job_versions.get(*key, allocation.job_version)
        assert version is not None, f"allocation {allocation.id} has lost its job {key}"
        if not allocation.is_terminal:
            assert snapshot.jobs.get(*key), (
                f"allocation {allocation.id} lives on after its job {key}"
            )
            live[key] += 1
    for job in snapshot.jobs.all():
        counted = snapshot.job_summaries.count_live(job.namespace, job.id)
        assert counted == live[job.namespace, job.id], f"job {job.id} counts {counted} live"
        key = (job.namespace, job.id)
        inputs, has_waiting = read_inputs(snapshot.connection, *key)
        assert inputs is not None
        implied = implied_status(snapshot.connection, key, inputs, has_waiting, False)
        assert job.status == implied or (job.status == "dead" and implied == "pending"), (
            f"job {job.id} is {job.status}, not {implied}"
        )


def _check_claims(snapshot: StateReads) -> None:
    """Invariant 7: a claim belongs to a registered job."""
    for claim in snapshot.volume_claims.all():
        job = snapshot.jobs.get(claim.namespace, claim.job_id)
        assert job is not None, f"claim {claim.id} outlived its job {claim.job_id}"


def _check_indexes(snapshot: StateReads, allocations: list[Allocation]) -> None:
    """No object is newer than the table it lies in, nor older than itself."""
    newest = snapshot.table_indexes.newest("allocations")
    for allocation in allocations:
        assert allocation.create_index <= allocation.alloc_modify_index, allocation.id
        assert allocation.alloc_modify_index <= allocation.modify_index <= newest, allocation.id
    for evaluation in snapshot.evaluations.all():
        newest = snapshot.table_indexes.newest("evaluations")
        assert evaluation.create_index <= evaluation.modify_index <= newest, evaluation.id
