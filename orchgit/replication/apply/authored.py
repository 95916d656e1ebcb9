"""Records whose token a write bore, for each object that the write changed."""

from __future__ import annotations

from orchgit.model.author import Author, AuthoredChange
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.evaluations import DeleteEvaluations, UpsertEvaluations
from orchgit.state.transaction import WriteTxn

KINDS = frozenset(
    (
        *("jobs", "variables", "sources", "rollouts", "nodes", "deployments", "namespaces"),
        *("node_pools", "host_volumes", "volume_claims", "root_keys", "allocations"),
        *("scheduler_config", "autopilot_config", "evaluations"),
        *("acl_tokens", "acl_policies", "acl_roles", "acl_auth_methods", "acl_binding_rules"),
    )
)
"""The tables whose objects people change."""


def record_author(txn: WriteTxn, author: Author, command: Command) -> None:
    """Stores the author of what the entry has changed so far.

    An evaluation that a change of a job makes has no author of its own.
    """
    of_evaluations = isinstance(command, UpsertEvaluations | DeleteEvaluations)
    found = {
        (table, key)
        for table, keys in txn.changed_by_entry()
        if table in KINDS and (table != "evaluations" or of_evaluations)
        for key in keys
    }
    txn.authored_changes.put_all(
        [
            AuthoredChange(
                kind=kind,
                key=_versioned(txn, key) if kind == "jobs" else key,
                author=author,
                action=type(command).__name__,
                time_ns=command.now_ns,
                create_index=txn.index,
                modify_index=txn.index,
            )
            for kind, key in sorted(found)
        ]
    )


def _versioned(txn: WriteTxn, key: str) -> str:
    namespace, _, job_id = key.partition("/")
    job = txn.jobs.get(namespace, job_id)
    return key if job is None else f"{key}@{job.version}"
