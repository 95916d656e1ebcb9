"""Callers behind secrets: what policies that cannot be read, or that a snapshot brought, allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchgit.acl.rights import Rights
from orchgit.api.access.caller import Caller
from orchgit.api.access.callers import TokenCallers
from orchgit.model.acl import AclPolicy, AclToken, JobAcl, secret_hash
from orchgit.model.workload_identity import IdentityClaims
from orchgit.replication.commands.acl import PutAclPolicies
from orchgit.state.store import Store
from tests.support.state import apply, open_store

SECRET = "11111111-2222-3333-4444-555555555555"
READABLE = 'namespace "default" { policy = "write" } node { policy = "write" }'
UNREADABLE = 'namespace "default" { policy = "of a later version" }'


def store_with(directory: Path, **policies: str) -> Store:
    """Returns a store with policies, which also count for the tasks of job `web`, and a token that
    has them all."""
    store = open_store(directory)
    bound = JobAcl("default", "web")
    token = AclToken("a", secret_hash(SECRET), type="client", policies=list(policies))
    bound_policies = [AclPolicy(name, rules=text, job_acl=bound) for name, text in policies.items()]
    apply(store, PutAclPolicies(policies=bound_policies))
    txn = store.begin()
    txn.acl_tokens.put(token)
    index = txn.meta.log_index() + 1
    store.publish(txn.commit(index), index)
    return store


def rights_in(callers: TokenCallers) -> Rights:
    found = callers.caller(SECRET)
    assert isinstance(found, Caller)
    return found.rights


def test_policy_of_a_restored_snapshot_counts_by_its_text(tmp_path: Path) -> None:
    before = store_with(tmp_path / "before", web='namespace "default" { policy = "write" }')
    after = store_with(tmp_path / "after", web='namespace "default" { policy = "read" }')
    current = [before]
    callers = TokenCallers(lambda: current[-1], lambda: 0)
    assert rights_in(callers).allows_namespace("default", "submit-job")
    with before.snapshot() as old, after.snapshot() as new:
        old_policy, new_policy = old.acl_policies.get("web"), new.acl_policies.get("web")
    assert old_policy is not None
    assert new_policy is not None
    assert old_policy.modify_index == new_policy.modify_index
    after.watch.note_replaced()
    current.append(after)
    assert not rights_in(callers).allows_namespace("default", "submit-job")
    before.close()
    after.close()


@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")])
def test_caller_with_an_unreadable_policy_gets_nothing(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    texts = {"good": READABLE, "bad": UNREADABLE}
    store = store_with(tmp_path, **{name: texts[name] for name in order})
    rights = rights_in(TokenCallers(lambda: store, lambda: 0))
    assert not rights.allows_namespace("default", "read-job")
    assert not rights.allows_coarse("node", "read")
    store.close()


def test_task_with_an_unreadable_policy_gets_not_even_its_own_variables(tmp_path: Path) -> None:
    store = store_with(tmp_path, bad=UNREADABLE)
    claims = IdentityClaims("default", "web", "alloc", "task", "", "", 0, 0, "")
    with store.snapshot() as snapshot:
        rights = TokenCallers(lambda: store, lambda: 0).workload_rights(snapshot, claims)
    assert not rights.allows_variable("default", "nomad/jobs/web", "read")
    store.close()
