"""Variables: compare-and-set and locks. Their items come sealed; no handler can read them."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import NotFoundError, RefusedError, UnavailableError
from orchgit.model.event import VariableChange
from orchgit.model.variable import StoredVariable, VariableConflictError, VariableLock
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.variables import (
    AcquireVariableLock,
    DeleteVariable,
    ReleaseVariableLock,
    RenewVariableLock,
    ResealVariables,
    UpsertVariable,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def upsert_variable(txn: WriteTxn, command: UpsertVariable, effects: Effects) -> StoredVariable:
    new = command.variable
    known = txn.variables.get(new.namespace, new.path)
    _check_index(new, known, command.expected_modify_index)
    if command.lock_id != (known.lock_id if known else ""):
        is_locked = known is not None and known.lock is not None
        reason = (
            "it is locked, and the lock's id was not given"
            if is_locked
            else "the lock is not held any more"
        )
        raise VariableConflictError(f"cannot write variable {new.path!r}: {reason}", known)
    stored = _store(txn, known, new, known.lock if known else None)
    effects.note(txn.index, "VariableUpdated", _change(stored))
    return stored


def _change(variable: StoredVariable, is_deleted: bool = False) -> VariableChange:
    return VariableChange(
        variable.namespace,
        variable.path,
        variable.create_index,
        variable.modify_index,
        variable.create_time_ns,
        variable.modify_time_ns,
        is_deleted,
    )


def delete_variable(txn: WriteTxn, command: DeleteVariable, effects: Effects) -> None:
    known = txn.variables.get(command.namespace, command.path)
    wanted = StoredVariable(namespace=command.namespace, path=command.path)
    _check_index(wanted, known, command.expected_modify_index)
    if known is None:
        return
    if known.lock is not None:
        raise VariableConflictError(
            f"cannot delete variable {known.path!r}: it is locked; release the lock first", known
        )
    txn.variables.delete(known)
    effects.note(txn.index, "VariableDeleted", _change(known, is_deleted=True))


def acquire_variable_lock(
    txn: WriteTxn, command: AcquireVariableLock, effects: Effects
) -> StoredVariable:
    """The holder of the lock may acquire it again, with other items or another TTL."""
    new, lock = command.variable, command.lock
    known = txn.variables.get(new.namespace, new.path)
    if known is not None and known.lock is not None and known.lock.id != lock.id:
        raise VariableConflictError(
            f"cannot lock variable {new.path!r}: somebody else holds the lock", known
        )
    if known is not None and known.lock is None and txn.now_ns < known.locked_out_until_ns:
        raise VariableConflictError(
            f"cannot lock variable {new.path!r}: its last lock ran out, and its lock delay has "
            "not passed yet",
            known,
        )
    if known is not None and command.keep_items:
        new = replace(new, key_id=known.key_id, sealed=known.sealed)
    return _store(txn, known, new, replace(lock, renew_index=txn.index))


def renew_variable_lock(
    txn: WriteTxn, command: RenewVariableLock, effects: Effects
) -> StoredVariable:
    known, lock = _held(txn, command.namespace, command.path, command.lock_id)
    renewed = replace(known, lock=replace(lock, renew_index=txn.index))
    txn.variables.put_renewed_lock(renewed)
    return renewed


def release_variable_lock(
    txn: WriteTxn, command: ReleaseVariableLock, effects: Effects
) -> StoredVariable:
    """The lock delay counts only for a lock that ran out, not for one that its holder releases."""
    known, lock = _held(txn, command.namespace, command.path, command.lock_id)
    ran_out = command.unrenewed_since is not None
    if ran_out and lock.renew_index != command.unrenewed_since:
        raise VariableConflictError(
            f"cannot end the lock of variable {known.path!r}: it was renewed", known
        )
    until_ns = txn.now_ns + lock.lock_delay_ns if ran_out else 0
    return _store(txn, replace(known, locked_out_until_ns=until_ns), known, None)


def reseal_variables(txn: WriteTxn, command: ResealVariables, effects: Effects) -> None:
    resealed = []
    for new in command.variables:
        known = txn.variables.get(new.namespace, new.path)
        if known is not None and known.modify_index == new.modify_index:
            resealed.append(replace(known, key_id=new.key_id, sealed=new.sealed))
    txn.variables.put_resealed(resealed)


def _check_index(new: StoredVariable, known: StoredVariable | None, expected: int | None) -> None:
    found = known.modify_index if known else 0
    if expected is not None and expected != found:
        raise VariableConflictError(
            f"cannot change variable {new.path!r}: its modify index is {found}, not {expected}; "
            "read it again",
            known,
        )


def _held(
    txn: WriteTxn, namespace: str, path: str, lock_id: str
) -> tuple[StoredVariable, VariableLock]:
    known = txn.variables.get(namespace, path)
    if known is None:
        raise NotFoundError("variable not found")
    if known.lock is None:
        raise RefusedError("variable doesn't hold a lock")
    if known.lock.id != lock_id:
        raise VariableConflictError(
            f"cannot use the lock of variable {path!r}: it is not held under this id", known
        )
    return known, known.lock


def _store(
    txn: WriteTxn, known: StoredVariable | None, new: StoredVariable, lock: VariableLock | None
) -> StoredVariable:
    if known is None and not txn.namespaces.has(new.namespace):
        raise RefusedError(
            f"cannot write variable {new.path!r}: nonexistent namespace {new.namespace!r}"
        )
    if not txn.root_keys.has(new.key_id):
        raise UnavailableError(
            f"cannot write variable {new.path!r}: the key that sealed it was deleted; try again"
        )
    stored = replace(
        new,
        lock=lock,
        locked_out_until_ns=known.locked_out_until_ns if known else 0,
        create_index=known.create_index if known else txn.index,
        create_time_ns=known.create_time_ns if known else txn.now_ns,
        modify_index=txn.index,
        modify_time_ns=txn.now_ns,
    )
    txn.variables.put(stored, lock_changes=lock != (known.lock if known else None))
    return stored


HANDLERS: Handlers = {
    UpsertVariable: upsert_variable,
    DeleteVariable: delete_variable,
    AcquireVariableLock: acquire_variable_lock,
    RenewVariableLock: renew_variable_lock,
    ReleaseVariableLock: release_variable_lock,
    ResealVariables: reseal_variables,
}
