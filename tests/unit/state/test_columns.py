"""Node columns: refreshed step by step they equal columns built from nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.model.allocation import ClientStatus
from orchgit.model.plan import AllocStop, AllocUpdate, PlanResult
from orchgit.model.resources import AllocatedPort
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocsFromClient
from orchgit.replication.commands.evaluations import DeleteEvaluations
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import DeleteNodes, RegisterNode, UpdateNodeEligibility
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.state import columns as columns_module
from orchgit.state.columns import ClusterColumns
from orchgit.state.store import Store
from tests.support.factories import make_job, make_node, make_placements, make_resources
from tests.support.state import apply, open_store

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["place", "stop", "end", "run", "resize", "node", "ineligible", "gone", "collect"]
        ),
        st.integers(0, 5),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


class _World:
    """A store that is changed step by step through real log entries."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.nodes = [make_node() for _ in range(3)]
        self.job = make_job(count=3)
        apply(store, *[RegisterNode(node=node) for node in self.nodes])
        apply(store, RegisterJob(upsert=JobUpsert(job=self.job)))
        self.next_port = 20000

    def step(self, kind: str, number: int) -> None:
        node = self.nodes[number % len(self.nodes)]
        with self.store.snapshot() as snapshot:
            running = [a for a in snapshot.allocations.all() if not a.is_terminal]
            known = snapshot.nodes.get(node.id) is not None
        if kind == "place" and known:
            self._plan(PlanResult(placements=[self._placements(node, number)]))
        elif kind == "stop" and running:
            chosen = running[number % len(running)]
            self._plan(PlanResult(stops=[AllocStop(alloc_id=chosen.id, node_id=chosen.node_id)]))
        elif kind == "end" and running:
            self._report(running[number % len(running)], ClientStatus.COMPLETE)
        elif kind == "run" and running:
            self._report(running[number % len(running)], ClientStatus.RUNNING)
        elif kind == "resize" and running:
            self._resize(running[number % len(running)], number)
        elif kind == "node":
            new = make_node(cpu_shares=1000 * (number + 1))
            self.nodes.append(new)
            apply(self.store, RegisterNode(node=new))
        elif kind == "ineligible" and known:
            apply(self.store, UpdateNodeEligibility(node_id=node.id, eligibility="ineligible"))
        elif kind == "collect":
            self._collect()
        elif kind == "gone" and known and not any(a.node_id == node.id for a in running):
            apply(self.store, DeleteNodes(node_ids=[node.id]))

    def _collect(self) -> None:
        """Forget what has ended."""
        with self.store.snapshot() as snapshot:
            ended = [a.id for a in snapshot.allocations.all() if a.is_client_terminal]
        apply(self.store, DeleteEvaluations(eval_ids=[], alloc_ids=ended))

    def _placements(self, node, number):  # type: ignore[no-untyped-def]
        placements = make_placements(self.job, [node], count=number % 2 + 1)
        ports = []
        for _ in range(len(placements)):
            self.next_port += 1
            ports.append([AllocatedPort(label="http", value=self.next_port, host_ip="10.0.0.1")])
        return replace(placements, ports=ports)

    def _plan(self, result: PlanResult) -> None:
        apply(
            self.store,
            ApplyPlan(
                namespace=self.job.namespace,
                job_id=self.job.id,
                job_version=0,
                eval_id="eval",
                result=result,
            ),
        )

    def _resize(self, allocation, number) -> None:  # type: ignore[no-untyped-def]
        resources = make_resources(cpu=10 * number, memory_mb=number)
        update = AllocUpdate(
            alloc_id=allocation.id, node_id=allocation.node_id, allocated_resources=resources
        )
        self._plan(PlanResult(updates=[update]))

    def _report(self, allocation, status) -> None:  # type: ignore[no-untyped-def]
        update = AllocClientUpdate(alloc_id=allocation.id, client_status=status)
        apply(self.store, UpdateAllocsFromClient(node_id=allocation.node_id, updates=[update]))


def _facts(columns: ClusterColumns) -> dict[str, tuple[object, ...]]:
    return {
        node_id: (
            int(columns.cpu_capacity[row]),
            int(columns.memory_capacity[row]),
            int(columns.cpu_used[row]),
            int(columns.memory_used[row]),
            int(columns.disk_used[row]),
            bool(columns.ready[row]),
            # Reports of allocations are stamped on the node without changing it for schedulers.
            replace(columns.nodes[row], last_alloc_update_index=0),
            {ip: set(ports) for ip, ports in columns.used_ports(row).items() if ports},
        )
        for node_id, row in columns.rows.items()
    }


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=_STEPS)
def test_refreshed_columns_equal_fresh_ones(
    tmp_path_factory: object, steps: list[tuple[str, int, bool]]
) -> None:
    """However long ago the last refresh was."""
    directory: Path = tmp_path_factory.mktemp("columns")  # type: ignore[attr-defined]
    store = open_store(directory)
    try:
        world = _World(store)
        columns = ClusterColumns()
        for kind, number, is_looked_at in steps:
            world.step(kind, number)
            if not is_looked_at:
                continue
            with store.snapshot() as snapshot:
                columns.refresh(snapshot)
                fresh = ClusterColumns()
                fresh.refresh(snapshot)
            assert _facts(columns) == _facts(fresh)
    finally:
        store.close()


def test_allocation_that_ended_and_was_deleted_between_refreshes_uses_nothing(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    try:
        world, columns = _World(store), ClusterColumns()
        world.step("place", 1)
        with store.snapshot() as snapshot:
            columns.refresh(snapshot)
        assert columns.cpu_used.any()
        for _ in range(2):
            world.step("end", 0)
        world.step("collect", 0)
        with store.snapshot() as snapshot:
            assert not snapshot.allocations.all()
            columns.refresh(snapshot)
        assert not columns.cpu_used.any()
        assert not any(columns.used_ports(row) for row in columns.rows.values())
    finally:
        store.close()


def test_allocation_on_a_node_of_the_same_refresh_counts_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    try:
        world, columns = _World(store), ClusterColumns()
        for kind, number in (("place", 0), ("look", 0), ("node", 0), ("place", 3), ("look", 0)):
            if kind == "look":
                with store.snapshot() as snapshot:
                    columns.refresh(snapshot)
            else:
                world.step(kind, number)
        fresh = ClusterColumns()
        with store.snapshot() as snapshot:
            fresh.refresh(snapshot)
        assert _facts(columns) == _facts(fresh)
    finally:
        store.close()


def test_reads_of_a_refresh_do_not_grow_with_the_cluster(tmp_path: Path) -> None:
    """The rows that changed what is taken are found by their own index, whatever the planner
    would choose; a report that changes nothing of that is not among them."""
    store = open_store(tmp_path)
    try:
        world = _World(store)
        world.step("place", 1)
        with store.snapshot() as snapshot:
            before = snapshot.index
            plan = snapshot.connection.execute(
                f"EXPLAIN QUERY PLAN {columns_module.CHANGED_NODES}", (1, 1)
            ).fetchone()
            assert "SEARCH" in plan[-1]
            assert "allocations_by_usage" in plan[-1]
        for kind, found in (("run", 0), ("end", 1)):
            world.step(kind, 0)
            with store.snapshot() as snapshot:
                changed = snapshot.connection.execute(
                    columns_module.CHANGED_NODES, (before, before)
                )
                assert len(changed.fetchall()) == found
    finally:
        store.close()


def test_row_of_a_deleted_node_is_used_again() -> None:
    columns = ClusterColumns()
    first, second = make_node(), make_node(cpu_shares=1234)
    columns.put_node(first)
    columns.add_usage(first.id, (100, 100, 100))
    columns.remove_node(first.id)
    columns.put_node(second)
    assert columns.rows == {second.id: 0}
    assert columns.cpu_capacity.tolist() == [1234]
    assert columns.cpu_used.tolist() == [0]


def test_columns_grow_beyond_their_first_size() -> None:
    columns = ClusterColumns()
    for number in range(200):
        columns.put_node(make_node(cpu_shares=number))
    assert columns.cpu_capacity.tolist() == list(range(200))
    assert np.all(columns.ready)


def test_columns_of_an_earlier_state_start_anew(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    try:
        world = _World(store)
        with store.snapshot() as earlier:
            world.step("node", 1)
            columns = ClusterColumns()
            with store.snapshot() as later:
                columns.refresh(later)
            assert len(columns.rows) == 4
            columns.refresh(earlier)
            assert len(columns.rows) == 3
    finally:
        store.close()
