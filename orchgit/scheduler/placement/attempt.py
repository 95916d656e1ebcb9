"""One wanted placement while a node is looked for."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.scheduler.placement.stack import GroupStack
from orchgit.scheduler.ranking.selector import Request, Selector
from orchgit.scheduler.reconcile.changes import Placement


@dataclass(slots=True)
class Attempt:
    placement: Placement
    stack: GroupStack
    """Of the group in the job version that is placed."""
    selector: Selector
    request: Request
    deployment_id: str
    """What the new allocation is part of; empty: no deployment."""
