"""The handlers of all areas in one table."""

from __future__ import annotations

from orchgit.replication.apply import (
    acl,
    acl_logins,
    allocations,
    csi_volumes,
    deployments,
    drift,
    evaluations,
    gitops,
    jobs,
    nodes,
    plans,
    restoring,
    root_keys,
    servers,
    settings,
    variables,
    volumes,
)
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.entry import Noop
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def _noop(txn: WriteTxn, command: Noop, effects: Effects) -> None:
    """The first entry of a new leader, and that of a barrier, change nothing."""


HANDLERS: Handlers = {
    Noop: _noop,
    **settings.HANDLERS,
    **jobs.HANDLERS,
    **gitops.HANDLERS,
    **drift.HANDLERS,
    **evaluations.HANDLERS,
    **plans.HANDLERS,
    **nodes.HANDLERS,
    **allocations.HANDLERS,
    **deployments.HANDLERS,
    **volumes.HANDLERS,
    **csi_volumes.HANDLERS,
    **variables.HANDLERS,
    **root_keys.HANDLERS,
    **servers.HANDLERS,
    **restoring.HANDLERS,
    **acl.HANDLERS,
    **acl_logins.HANDLERS,
}
