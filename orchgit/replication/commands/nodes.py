"""Nodes: registration, status, drain and eligibility."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.evaluation import Evaluation
from orchgit.model.node import DrainStrategy, Node, NodeEvent
from orchgit.replication.commands.entry import Entry


class RegisterNode(Entry, tag="register-node", kw_only=True):
    """Store what an agent found; never sets the status of a known node (invariant 5)."""

    node: Node


class UpdateNodeStatus(Entry, tag="update-node-status", kw_only=True):
    """`missed_heartbeat` also stamps the node's last missed heartbeat index."""

    node_id: str
    status: str
    description: str = ""
    missed_heartbeat: bool = False
    evaluations: list[Evaluation] = []
    event: NodeEvent | None = None


class UpdateNodeDrain(Entry, tag="update-node-drain", kw_only=True):
    node_id: str
    drain: DrainStrategy | None = None
    mark_eligible: bool = False
    evaluations: list[Evaluation] = []
    event: NodeEvent | None = None


class SetNodeDrain(Entry, tag="set-node-drain", kw_only=True):
    """Begin, change or (with `drain` None) end a drain. `completed`: all that was to leave has.

    `meta` is what the operator says about it; a drain's end without any keeps that of its start.
    """

    since: ClassVar[int] = 2

    node_id: str
    drain: DrainStrategy | None = None
    mark_eligible: bool = False
    completed: bool = False
    meta: dict[str, str] | None = None
    evaluations: list[Evaluation] = []
    event: NodeEvent | None = None


class UpdateNodeEligibility(Entry, tag="update-node-eligibility", kw_only=True):
    node_id: str
    eligibility: str
    evaluations: list[Evaluation] = []
    event: NodeEvent | None = None


class DeleteNodes(Entry, tag="delete-nodes", kw_only=True):
    node_ids: list[str]
    evaluations: list[Evaluation] = []


NodeCommand = (
    RegisterNode
    | UpdateNodeStatus
    | UpdateNodeDrain
    | SetNodeDrain
    | UpdateNodeEligibility
    | DeleteNodes
)
