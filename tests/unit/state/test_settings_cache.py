"""Settings are read once, and again when they have changed."""

from __future__ import annotations

from pathlib import Path

from orchgit.model.node import Namespace, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.state.cluster_view import SnapshotClusterView
from orchgit.state.columns import ClusterColumns
from orchgit.state.store import Store
from orchgit.state.transaction import WriteTxn
from tests.support.factories import NOW_NS, make_job
from tests.support.state import open_store


class _Views:
    """Each the newest view of one store, over the same columns."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._columns = ClusterColumns()
        self._index = 1

    def change(self, thing: SchedulerConfig | NodePool | Namespace | None) -> None:
        self._index += 1
        txn = self._store.begin()
        txn.begin_entry(self._index, NOW_NS)
        _put(txn, thing)
        txn.end_entry()
        self._store.publish(txn.commit(self._index), self._index)

    def seen(self) -> tuple[str, bool, int]:
        """(algorithm, whether there is the pool, how many statements it took)"""
        statements: list[str] = []
        with self._store.snapshot() as snapshot:
            self._columns.refresh(snapshot)
            snapshot.connection.set_trace_callback(statements.append)
            view = SnapshotClusterView(snapshot, self._columns)
            algorithm = view.scheduler_config().scheduler_algorithm
            has_pool = view.node_pool("gpu") is not None
            view.namesakes("default", "web")
            snapshot.connection.set_trace_callback(None)
        return algorithm, has_pool, len(statements)


def _put(txn: WriteTxn, thing: SchedulerConfig | NodePool | Namespace | None) -> None:
    if isinstance(thing, SchedulerConfig):
        txn.scheduler_config.put(thing)
    elif isinstance(thing, NodePool):
        txn.node_pools.put_all([thing])
    elif isinstance(thing, Namespace):
        txn.namespaces.put_all([thing])
    else:
        txn.jobs.put(make_job())


def test_settings_are_read_once_until_they_change(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    try:
        views = _Views(store)
        views.change(None)
        assert views.seen() == ("binpack", False, 3)
        views.change(None)
        assert views.seen() == ("binpack", False, 0)
        views.change(SchedulerConfig(scheduler_algorithm="spread"))
        assert views.seen()[:2] == ("spread", False)
        views.change(NodePool("gpu"))
        assert views.seen()[:2] == ("spread", True)
        views.change(Namespace("other"))
        assert views.seen()[2] == 4, "now namesakes are looked for"
        assert views.seen()[2] == 1
    finally:
        store.close()
