"""Plans in flight count in the columns until a snapshot has them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.model.plan import AllocStop, Placements, PlanResult
from orchgit.model.resources import AllocatedPort
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import DeleteNodes, RegisterNode
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.state.cluster_view import SnapshotClusterView
from orchgit.state.columns import ClusterColumns
from orchgit.state.in_flight import InFlightPlacements
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
from tests.support.factories import make_id, make_job, make_node, make_placements, make_resources
from tests.support.state import apply, open_store

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "commit", "part", "answer", "refuse", "stop", "node", "gone"]),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=14,
)


class _Worker:
    """A worker that submits plans, and a log that commits them or not."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.nodes = [make_node() for _ in range(3)]
        self.job = make_job(count=3)
        self.in_flight = InFlightPlacements()
        self.columns = ClusterColumns()
        self.unanswered: dict[str, list[Placements]] = {}
        self.committed: dict[str, tuple[list[Placements], int]] = {}
        self._port = 20000
        self._checked = False
        apply(store, *[RegisterNode(node=node) for node in self.nodes])
        apply(store, RegisterJob(upsert=JobUpsert(job=self.job)))

    def step(self, kind: str, number: int) -> None:
        open_ones = [each for each in self.unanswered if each not in self.committed]
        if kind == "send":
            plan_id = make_id()
            self.unanswered[plan_id] = [self._placements(number)]
            self.in_flight.submit(plan_id, self.unanswered[plan_id])
            if self._checked:
                self._counts_at_once()
        elif kind in ("commit", "part") and open_ones:
            self._commit(open_ones[number % len(open_ones)], whole=kind == "commit")
        elif kind == "answer" and self.committed:
            plan_id = list(self.committed)[number % len(self.committed)]
            self.in_flight.resolve(plan_id, *self.committed.pop(plan_id))
            del self.unanswered[plan_id]
        elif kind == "refuse" and open_ones:
            plan_id = open_ones[number % len(open_ones)]
            self.in_flight.resolve(plan_id, [], 0)
            del self.unanswered[plan_id]
        elif kind == "stop":
            self._stop(number)
        elif kind == "node":
            self.nodes.append(make_node(cpu_shares=1000 * (number + 1)))
            apply(self.store, RegisterNode(node=self.nodes[-1]))
        elif kind == "gone" and len(self.nodes) > 3:
            apply(self.store, DeleteNodes(node_ids=[self.nodes.pop().id]))

    def _counts_at_once(self) -> None:
        """The next decision on the same view sees it."""
        with self.store.snapshot() as snapshot:
            assert _facts(self.columns) == self._wanted(snapshot)

    def _placements(self, number: int) -> Placements:
        chosen = [self.nodes[number % len(self.nodes)], self.nodes[0]]
        placements = make_placements(self.job, chosen, count=2)
        if number % 2:
            placements = replace(placements, resources_of={1: make_resources(cpu=7, memory_mb=9)})
        if number % 3:
            ports = []
            for _ in range(len(placements)):
                self._port += 1
                ports.append([AllocatedPort(label="p", value=self._port, host_ip="10.0.0.1")])
            placements = replace(placements, ports=ports)
        return placements

    def _commit(self, plan_id: str, *, whole: bool) -> None:
        """In part: the row on the node that every plan has is refused."""
        sent = self.unanswered[plan_id]
        kept = sent if whole else [_without_last(each) for each in sent]
        self._plan(PlanResult(placements=kept))
        with self.store.snapshot() as snapshot:
            self.committed[plan_id] = (kept, snapshot.index)

    def _stop(self, number: int) -> None:
        with self.store.snapshot() as snapshot:
            live = [each for each in snapshot.allocations.all() if not each.is_terminal]
        if live:
            one = live[number % len(live)]
            stop = AllocStop(alloc_id=one.id, node_id=one.node_id, client_status="lost")
            self._plan(PlanResult(stops=[stop]))

    def _plan(self, result: PlanResult) -> None:
        job = self.job
        apply(
            self.store,
            ApplyPlan(
                namespace=job.namespace, job_id=job.id, job_version=0, eval_id="e", result=result
            ),
        )

    def check(self) -> None:
        self._checked = True
        with self.store.snapshot() as snapshot:
            self.in_flight.remove_from(self.columns)
            self.columns.refresh(snapshot)
            self.in_flight.add_to(self.columns, snapshot)
            assert _facts(self.columns) == self._wanted(snapshot)
            view = SnapshotClusterView(snapshot, self.columns, self.in_flight)
            for node in self.nodes:
                held = {each.id for each in view.allocations_on_node(node.id)}
                assert held == self._ids_on(snapshot, node.id)

    def _missing(self, snapshot: Snapshot) -> list[tuple[Placements, int]]:
        """(placements, row) that were sent, may come to be, and are not in the state."""
        there = {each.id for each in snapshot.allocations.all()}
        return [
            (placements, row)
            for plan_id, sent in self.unanswered.items()
            if plan_id not in self.committed
            for placements in sent
            for row in range(len(placements))
            if placements.alloc_ids[row] not in there
        ]

    def _wanted(self, snapshot: Snapshot) -> dict[str, object]:
        columns = ClusterColumns()
        columns.refresh(snapshot)
        for placements, row in self._missing(snapshot):
            total = placements.resources_of.get(row, placements.resources).total()
            usage = (total.cpu_shares, total.memory_mb, total.disk_mb)
            ports = placements.ports[row] if placements.ports else []
            columns.add_usage(placements.node_ids[row], usage, ports)
        return _facts(columns)

    def _ids_on(self, snapshot: Snapshot, node_id: str) -> set[str]:
        held = {each.id for each in snapshot.allocations.occupying_node(node_id)}
        return held | {
            placements.alloc_ids[row]
            for placements, row in self._missing(snapshot)
            if placements.node_ids[row] == node_id
        }


def _without_last(placements: Placements) -> Placements:
    kept = range(len(placements) - 1)
    return replace(
        placements,
        alloc_ids=[placements.alloc_ids[row] for row in kept],
        name_indexes=[placements.name_indexes[row] for row in kept],
        node_ids=[placements.node_ids[row] for row in kept],
        node_names=[placements.node_names[row] for row in kept],
        ports=placements.ports and [placements.ports[row] for row in kept],
        resources_of={},
    )


def _facts(columns: ClusterColumns) -> dict[str, object]:
    return {
        node_id: (
            int(columns.cpu_used[row]),
            int(columns.memory_used[row]),
            int(columns.disk_used[row]),
            {ip: set(ports) for ip, ports in columns.used_ports(row).items() if ports},
        )
        for node_id, row in columns.rows.items()
    }


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=_STEPS)
def test_plan_in_flight_counts_until_the_snapshot_has_it(
    tmp_path_factory: object, steps: list[tuple[str, int]]
) -> None:
    directory: Path = tmp_path_factory.mktemp("expected")  # type: ignore[attr-defined]
    store = open_store(directory)
    try:
        sender = _Worker(store)
        for kind, number in steps:
            sender.step(kind, number)
            sender.check()
    finally:
        store.close()


def test_resolved_plan_counts_in_a_store_that_has_not_applied_it(tmp_path: Path) -> None:
    """As on a server that does not lead: the leader has committed what this store will have."""
    store = open_store(tmp_path)
    try:
        sender = _Worker(store)
        sender.step("send", 0)
        (plan_id,) = sender.unanswered
        sent = sender.unanswered[plan_id]
        with store.snapshot() as snapshot:
            later = snapshot.index + 1
        sender.in_flight.resolve(plan_id, sent, later)
        assert sender.in_flight.resolved_index == later
        sender.check()
        sender.step("commit", 0)
        sender.unanswered.clear()
        sender.check()
        assert not sender.in_flight
    finally:
        store.close()


def test_placement_on_a_deleted_node_does_not_count_for_the_next_node_in_its_row(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    try:
        sender = _Worker(store)
        for kind, number in (("node", 0), ("send", 3), ("gone", 0), ("node", 1)):
            sender.step(kind, number)
            sender.check()
    finally:
        store.close()
