"""What a reconciliation asks for: the vocabulary between what is wanted and where it goes."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment, DeploymentStatusUpdate
from orchgit.model.evaluation import DesiredUpdates, Evaluation
from orchgit.model.group import TaskGroup

NOT_NEEDED = "alloc not needed due to job update"
MIGRATING = "alloc is being migrated"
UPDATING = "alloc is being updated due to job update"
LOST = "alloc is lost since its node is down"
UNKNOWN = "alloc is unknown since its node is disconnected"
NODE_TAINTED = "alloc not needed as node is tainted"
RESCHEDULED = "alloc was rescheduled because it failed"
RECONNECTED = "alloc not needed due to disconnected client reconnect"

Allocs = dict[str, Allocation]
"""By id, in a stable order."""


@dataclass(slots=True)
class Stop:
    allocation: Allocation
    description: str = ""
    client_status: str = ""
    followup_eval_id: str = ""


@dataclass(slots=True)
class Placement:
    """One allocation to place. `downgrade`: with the job version that the deployment replaces."""

    group: TaskGroup
    name_index: int
    previous: Allocation | None = None
    canary: bool = False
    rescheduling: bool = False
    lost: bool = False
    downgrade: bool = False
    min_version: int = 0
    stops_previous: bool = False
    """A destructive update: the previous one is stopped only if the new one is placed."""


@dataclass(slots=True)
class Disconnect:
    """The allocation's client status becomes unknown."""

    allocation: Allocation
    followup_eval_id: str


@dataclass(slots=True)
class JobChanges:
    """Everything one job needs, over all its groups."""

    places: list[Placement] = field(default_factory=list)
    destructive: list[Placement] = field(default_factory=list)
    in_place: list[Allocation] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    disconnects: list[Disconnect] = field(default_factory=list)
    reconnects: list[Allocation] = field(default_factory=list)
    followup_of: dict[str, tuple[Allocation, str]] = field(default_factory=dict)
    """Allocations with the evaluation that will look at them later."""
    followups: list[Evaluation] = field(default_factory=list)
    desired: dict[str, DesiredUpdates] = field(default_factory=dict)
    deployment: Deployment | None = None
    """A new deployment."""
    deployment_updates: list[DeploymentStatusUpdate] = field(default_factory=list)


def alloc_set(allocations: list[Allocation]) -> Allocs:
    return {allocation.id: allocation for allocation in allocations}


def without(allocs: Allocs, *others: Allocs) -> Allocs:
    return {
        alloc_id: allocation
        for alloc_id, allocation in allocs.items()
        if not any(alloc_id in other for other in others)
    }


def union(*sets: Allocs) -> Allocs:
    merged: Allocs = {}
    for allocs in sets:
        merged.update(allocs)
    return merged


def by_name(allocs: Allocs) -> list[Allocation]:
    """In the order of the name index."""
    return sorted(allocs.values(), key=lambda a: (a.name_index, a.create_index, a.id))
