"""Allocations, as agents and the drainer change them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from orchgit.model.allocation import DesiredTransition, DriverAddress, NetworkStatus, TaskState
from orchgit.model.base import Model
from orchgit.model.evaluation import Evaluation
from orchgit.replication.commands.entry import Entry


class AllocStatusUpdate(Model):
    """What an agent reports of one allocation, as far as servers of version 6 take it in."""

    alloc_id: str
    client_status: str
    client_description: str = ""
    task_states: dict[str, TaskState] | None = None
    deployment_healthy: bool | None = None
    deployment_healthy_at_ns: int = 0
    network_status: NetworkStatus | None = None


class AllocClientUpdate(AllocStatusUpdate):
    """What an agent reports of one allocation."""

    driver_addresses: dict[str, DriverAddress] | None = None


class UpdateAllocsFromClient(Entry, tag="update-allocs-from-client", kw_only=True):
    """Stamps the node's last allocation update index (invariant 5), even with no updates."""

    node_id: str
    updates: Sequence[AllocStatusUpdate] = ()
    evaluations: list[Evaluation] = []


class UpdateAllocs(UpdateAllocsFromClient, tag="update-allocs", kw_only=True):
    """As UpdateAllocsFromClient, with the addresses that drivers gave to tasks."""

    since: ClassVar[int] = 7

    updates: Sequence[AllocClientUpdate] = ()

    def earlier_form(self) -> UpdateAllocsFromClient:
        """Returns the entry that servers of version 6 understand: the addresses are left out."""
        return UpdateAllocsFromClient(
            now_ns=self.now_ns,
            node_id=self.node_id,
            updates=self.updates,
            evaluations=self.evaluations,
        )


class UpdateAllocTransitions(Entry, tag="update-alloc-transitions", kw_only=True):
    transitions: dict[str, DesiredTransition]
    evaluations: list[Evaluation] = []


AllocationCommand = UpdateAllocsFromClient | UpdateAllocs | UpdateAllocTransitions
