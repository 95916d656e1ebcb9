"""Root keys: one is active, the others still open what they sealed before."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import ConflictError, NotFoundError
from orchgit.model.variable import RootKey, RootKeyState
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.root_keys import DeleteRootKey, PutRootKey
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def put_root_key(txn: WriteTxn, command: PutRootKey, effects: Effects) -> RootKey:
    active = txn.root_keys.active()
    if active is not None and command.only_first:
        return active
    if active is not None:
        retired = replace(active, state=RootKeyState.INACTIVE, modify_index=txn.index)
        txn.root_keys.put(retired)
    key = replace(
        command.key,
        state=RootKeyState.ACTIVE,
        create_time_ns=txn.now_ns,
        publish_time_ns=txn.now_ns,
        create_index=txn.index,
        modify_index=txn.index,
    )
    txn.root_keys.put(key)
    return key


def delete_root_key(txn: WriteTxn, command: DeleteRootKey, effects: Effects) -> None:
    key = txn.root_keys.get(command.key_id)
    if key is None:
        raise NotFoundError(f"cannot delete root key {command.key_id!r}: there is no such key")
    if key.state == RootKeyState.ACTIVE:
        raise ConflictError(f"cannot delete root key {key.key_id!r}: it is the active one; rotate")
    if txn.variables.any_sealed_by(key.key_id):
        raise ConflictError(
            f"cannot delete root key {key.key_id!r}: it seals variables; rotate with -full first"
        )
    if txn.acl_tokens.any_sealed_by(key.key_id) or txn.acl_auth_methods.any_sealed_by(key.key_id):
        raise ConflictError(
            f"cannot delete root key {key.key_id!r}: it seals secrets of tokens or auth methods; "
            "rotate with -full first"
        )
    txn.root_keys.delete(key.key_id)


HANDLERS: Handlers = {
    PutRootKey: put_root_key,
    DeleteRootKey: delete_root_key,
}
