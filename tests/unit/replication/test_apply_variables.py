"""Variables in the state machine: check-and-set, locks, root keys."""

from __future__ import annotations

from typing import Any

import pytest

from orchgit.errors import ConflictError, NotFoundError, RefusedError, UnavailableError
from orchgit.model.node import Namespace
from orchgit.model.variable import (
    RootKey,
    RootKeyState,
    StoredVariable,
    VariableConflictError,
    VariableLock,
)
from orchgit.replication.commands.root_keys import DeleteRootKey, PutRootKey
from orchgit.replication.commands.settings import DeleteNamespaces, UpsertNamespaces
from orchgit.replication.commands.variables import (
    AcquireVariableLock,
    DeleteVariable,
    ReleaseVariableLock,
    RenewVariableLock,
    ResealVariables,
    UpsertVariable,
)
from tests.support.factories import NOW_NS
from tests.unit.replication.conftest import Cluster

SECOND_NS = 1_000_000_000
PLACE = {"namespace": "default", "path": "a/b"}


def sealed(text: str = "one", **fields: Any) -> StoredVariable:
    fields = {"key_id": "k1", **PLACE, **fields}
    return StoredVariable(sealed=text.encode(), **fields)


def put(cluster: Cluster, text: str = "one", **fields: Any) -> StoredVariable:
    stored: StoredVariable = cluster.do(UpsertVariable(variable=sealed(text), **fields))
    return stored


def current(cluster: Cluster) -> StoredVariable | None:
    with cluster.see() as snapshot:
        return snapshot.variables.get(**PLACE)


def acquire(cluster: Cluster, lock_id: str = "L1", now_ns: int = NOW_NS, **fields: Any) -> Any:
    lock = VariableLock(id=lock_id, ttl_ns=10 * SECOND_NS, lock_delay_ns=5 * SECOND_NS)
    fields = {"variable": sealed("locked"), "lock": lock, **fields}
    return cluster.do(AcquireVariableLock(now_ns=now_ns, **fields))


@pytest.fixture(autouse=True)
def _root_key(cluster: Cluster) -> None:
    cluster.do(PutRootKey(key=RootKey(key_id="k1", wrapped=b"w")))


def test_expected_index_zero_writes_only_a_new_variable(cluster: Cluster) -> None:
    first = put(cluster, "one", expected_modify_index=0)
    with pytest.raises(VariableConflictError) as caught:
        put(cluster, "two", expected_modify_index=0)
    assert caught.value.current == first == current(cluster)


def test_variable_that_changed_since_it_was_read_is_not_written(cluster: Cluster) -> None:
    first = put(cluster, "one")
    second = put(cluster, "two", expected_modify_index=first.modify_index)
    assert second.create_index == first.create_index < second.modify_index
    with pytest.raises(VariableConflictError) as caught:
        put(cluster, "three", expected_modify_index=first.modify_index)
    assert caught.value.current == second
    with pytest.raises(VariableConflictError):
        cluster.do(DeleteVariable(**PLACE, expected_modify_index=first.modify_index))
    cluster.do(DeleteVariable(**PLACE, expected_modify_index=second.modify_index))
    assert current(cluster) is None


def test_conflict_on_a_deleted_variable_has_no_current_variable(cluster: Cluster) -> None:
    with pytest.raises(VariableConflictError) as caught:
        put(cluster, expected_modify_index=7)
    assert caught.value.current is None
    cluster.do(DeleteVariable(**PLACE))


def test_locked_variable_is_written_only_with_its_lock(cluster: Cluster) -> None:
    put(cluster, "one")
    acquire(cluster)
    for lock_id in ("", "other"):
        with pytest.raises(VariableConflictError):
            put(cluster, "two", lock_id=lock_id)
    with pytest.raises(VariableConflictError, match="release the lock"):
        cluster.do(DeleteVariable(**PLACE))
    written = put(cluster, "two", lock_id="L1")
    assert written.lock_id == "L1"


def test_lost_lock_cannot_write_the_variable(cluster: Cluster) -> None:
    put(cluster, "one")
    with pytest.raises(VariableConflictError, match="not held any more"):
        put(cluster, "two", lock_id="L1")


def test_held_lock_is_refused_to_others(cluster: Cluster) -> None:
    acquire(cluster)
    with pytest.raises(VariableConflictError, match="somebody else"):
        acquire(cluster, "L2")
    assert acquire(cluster, "L1").lock_id == "L1"
    cluster.do(ReleaseVariableLock(**PLACE, lock_id="L1"))
    assert acquire(cluster, "L2").lock_id == "L2"


def test_acquiring_without_items_keeps_them(cluster: Cluster) -> None:
    put(cluster, "one")
    assert acquire(cluster, keep_items=True).sealed == b"one"
    assert acquire(cluster).sealed == b"locked"


def test_after_a_lock_ran_out_its_delay_passes_first(cluster: Cluster) -> None:
    held = acquire(cluster)
    cluster.do(
        ReleaseVariableLock(
            now_ns=NOW_NS, **PLACE, lock_id="L1", unrenewed_since=held.lock.renew_index
        )
    )
    with pytest.raises(VariableConflictError, match="lock delay"):
        acquire(cluster, "L2", now_ns=NOW_NS + 4 * SECOND_NS)
    put(cluster, "written meanwhile")
    with pytest.raises(VariableConflictError, match="lock delay"):
        acquire(cluster, "L2", now_ns=NOW_NS + 4 * SECOND_NS)
    assert acquire(cluster, "L2", now_ns=NOW_NS + 5 * SECOND_NS).lock_id == "L2"


def test_lock_that_was_renewed_does_not_run_out(cluster: Cluster) -> None:
    held = acquire(cluster)
    renewed = cluster.do(RenewVariableLock(**PLACE, lock_id="L1"))
    assert renewed.modify_index == held.modify_index
    with pytest.raises(VariableConflictError, match="renewed"):
        cluster.do(
            ReleaseVariableLock(**PLACE, lock_id="L1", unrenewed_since=held.lock.renew_index)
        )
    found = current(cluster)
    assert found is not None
    assert found.lock_id == "L1"


def test_lock_is_renewed_and_released_by_its_holder(cluster: Cluster) -> None:
    for command in (RenewVariableLock, ReleaseVariableLock):
        with pytest.raises(NotFoundError):
            cluster.do(command(**PLACE, lock_id="L1"))
    acquire(cluster)
    for command in (RenewVariableLock, ReleaseVariableLock):
        with pytest.raises(VariableConflictError, match="not held under this id"):
            cluster.do(command(**PLACE, lock_id="L2"))


def test_renewal_moves_no_index_that_readers_wait_for(cluster: Cluster) -> None:
    acquire(cluster)
    with cluster.see() as snapshot:
        before = snapshot.table_indexes.newest("variables")
    cluster.do(RenewVariableLock(**PLACE, lock_id="L1"))
    with cluster.see() as snapshot:
        assert snapshot.table_indexes.newest("variables") == before


def test_namespace_must_be_there_and_is_not_deleted_with_variables(cluster: Cluster) -> None:
    there = sealed(namespace="apps")
    with pytest.raises(RefusedError, match="nonexistent namespace"):
        cluster.do(UpsertVariable(variable=there))
    cluster.do(UpsertNamespaces(namespaces=[Namespace("apps", "")]))
    cluster.do(UpsertVariable(variable=there))
    with pytest.raises(RefusedError, match="variables"):
        cluster.do(DeleteNamespaces(names=["apps"]))


def test_first_root_key_is_made_once(cluster: Cluster) -> None:
    kept = cluster.do(PutRootKey(key=RootKey(key_id="k2"), only_first=True))
    assert kept.key_id == "k1"
    rotated = cluster.do(PutRootKey(key=RootKey(key_id="k3")))
    assert rotated.state == RootKeyState.ACTIVE
    with cluster.see() as snapshot:
        states = {key.key_id: key.state for key in snapshot.root_keys.all()}
    assert states == {"k3": "active", "k1": "inactive"}


def test_root_key_that_seals_variables_is_not_deleted(cluster: Cluster) -> None:
    stored = put(cluster)
    with pytest.raises(ConflictError, match="active"):
        cluster.do(DeleteRootKey(key_id="k1"))
    cluster.do(PutRootKey(key=RootKey(key_id="k2")))
    with pytest.raises(ConflictError, match="seals variables"):
        cluster.do(DeleteRootKey(key_id="k1"))
    again = sealed("again", key_id="k2", modify_index=stored.modify_index)
    cluster.do(ResealVariables(variables=[again]))
    cluster.do(DeleteRootKey(key_id="k1"))
    with pytest.raises(UnavailableError, match="was deleted"):
        put(cluster)
    found = current(cluster)
    assert found is not None
    assert (found.sealed, found.modify_index) == (b"again", stored.modify_index)


def test_variable_that_changed_meanwhile_is_not_resealed(cluster: Cluster) -> None:
    before = put(cluster, "one")
    put(cluster, "two")
    stale = sealed("one again", modify_index=before.modify_index)
    cluster.do(ResealVariables(variables=[stale]))
    found = current(cluster)
    assert found is not None
    assert found.sealed == b"two"
