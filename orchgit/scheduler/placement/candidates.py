"""The nodes that are looked at for a job: ready, in its pool and datacenters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from orchgit.model.evaluation import AllocMetric
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.scheduler.ports import Mask, NodeColumns, Numbers


@dataclass(slots=True)
class Candidates:
    """What every metric reports of them."""

    rows: Numbers
    pool: str
    available: dict[str, int]

    @staticmethod
    def of(columns: NodeColumns, job: Job, mask: Mask) -> Candidates:
        """Cached until a node changes: `mask` follows from the job's pool and datacenters."""
        key = ("candidates", job.node_pool, tuple(job.datacenters))
        known = columns.memo.get(key)
        if known is None:
            rows = np.flatnonzero(mask)
            available = Counter(node_at(columns, row).datacenter for row in rows.tolist())
            known = columns.memo[key] = Candidates(rows, job.node_pool, dict(available))
        return known

    def metric(self) -> AllocMetric:
        return AllocMetric(
            nodes_evaluated=len(self.rows),
            nodes_in_pool=len(self.rows),
            node_pool=self.pool,
            nodes_available=dict(self.available),
        )


def node_at(columns: NodeColumns, row: int) -> Node:
    node = columns.nodes[row]
    assert node is not None, "only rows with a node are looked at"
    return node
