"""Tokens, policies and roles. Secrets come hashed and sealed; no handler can read them."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import ConflictError, InvalidInputError, RefusedError, UnavailableError
from orchgit.model.acl import AclRole, AclToken
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.acl import (
    BootstrapAcl,
    ChangeAclToken,
    CreateAclToken,
    DeleteAclPolicies,
    DeleteAclRoles,
    DeleteAclTokens,
    PutAclPolicies,
    PutAclRole,
    ResealAclSecrets,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def bootstrap_acl(txn: WriteTxn, command: BootstrapAcl, effects: Effects) -> AclToken:
    last = txn.acl_bootstrap.index()
    if last and not command.reset_index:
        raise InvalidInputError(f"ACL bootstrap already done (reset index: {last})")
    if last and command.reset_index != last:
        raise InvalidInputError(
            f"Invalid bootstrap reset index (specified {command.reset_index}, reset index: {last})"
        )
    txn.acl_bootstrap.put(txn.index)
    return _store_new(txn, command.token, effects)


def create_acl_token(txn: WriteTxn, command: CreateAclToken, effects: Effects) -> AclToken:
    return _store_new(txn, command.token, effects)


def _store_new(txn: WriteTxn, token: AclToken, effects: Effects) -> AclToken:
    if txn.acl_tokens.of_secret(token.secret_hash) is not None:
        raise InvalidInputError("cannot create the token: its secret is in use; choose another")
    if txn.acl_tokens.get(token.accessor_id) is not None:
        raise ConflictError(f"cannot create token {token.accessor_id}: there is one")
    if not txn.root_keys.has(token.key_id):
        raise UnavailableError(
            "cannot create the token: the key that sealed its secret was deleted; try again"
        )
    stored = replace(token, create_index=txn.index, modify_index=txn.index)
    txn.acl_tokens.put(stored)
    effects.note(txn.index, "ACLTokenUpserted", stored)
    return stored


def change_acl_token(txn: WriteTxn, command: ChangeAclToken, effects: Effects) -> AclToken:
    new = command.token
    known = txn.acl_tokens.get(new.accessor_id)
    if known is None:
        raise InvalidInputError(f"cannot find token {new.accessor_id}")
    stored = replace(
        known,
        name=new.name,
        type=new.type,
        policies=new.policies,
        roles=new.roles,
        digest=new.digest,
        modify_index=txn.index,
    )
    txn.acl_tokens.put(stored)
    effects.note(txn.index, "ACLTokenUpserted", stored)
    return stored


def delete_acl_tokens(txn: WriteTxn, command: DeleteAclTokens, effects: Effects) -> None:
    found = [(id_, txn.acl_tokens.get(id_)) for id_ in command.accessor_ids]
    missing = [id_ for id_, token in found if token is None]
    if missing and not command.missing_ok:
        raise InvalidInputError(f"Cannot delete nonexistent tokens: {', '.join(missing)}")
    known = [token for _, token in found if token is not None]
    txn.acl_tokens.delete_all([token.accessor_id for token in known])
    for token in known:
        effects.note(txn.index, "ACLTokenDeleted", token)


def put_acl_policies(txn: WriteTxn, command: PutAclPolicies, effects: Effects) -> None:
    for policy in command.policies:
        known = txn.acl_policies.get(policy.name)
        policy.create_index = known.create_index if known else txn.index
        policy.modify_index = txn.index
        effects.note(txn.index, "ACLPolicyUpserted", policy)
    txn.acl_policies.put_all(command.policies)


def delete_acl_policies(txn: WriteTxn, command: DeleteAclPolicies, effects: Effects) -> None:
    known = [policy for name in command.names if (policy := txn.acl_policies.get(name))]
    txn.acl_policies.delete_all([policy.name for policy in known])
    for policy in known:
        effects.note(txn.index, "ACLPolicyDeleted", policy)


def put_acl_role(txn: WriteTxn, command: PutAclRole, effects: Effects) -> AclRole:
    role = command.role
    same_name = txn.acl_roles.of_name(role.name)
    if same_name is not None and same_name.id != role.id:
        raise InvalidInputError(f"role with name {role.name} already exists")
    known = txn.acl_roles.get(role.id)
    role.create_index = known.create_index if known else txn.index
    role.modify_index = txn.index
    txn.acl_roles.put(role)
    effects.note(txn.index, "ACLRoleUpserted", role)
    return role


def delete_acl_roles(txn: WriteTxn, command: DeleteAclRoles, effects: Effects) -> None:
    for role_id in command.role_ids:
        role = txn.acl_roles.get(role_id)
        if role is None:
            raise RefusedError("ACL role not found")
        effects.note(txn.index, "ACLRoleDeleted", role)
    txn.acl_roles.delete_all(command.role_ids)


def reseal_acl_secrets(txn: WriteTxn, command: ResealAclSecrets, effects: Effects) -> None:
    tokens = []
    for new in command.tokens:
        token = txn.acl_tokens.get(new.accessor_id)
        if token is not None:
            tokens.append(replace(token, secret=new.secret))
    txn.acl_tokens.put_resealed(tokens)
    methods = []
    for changed in command.methods:
        method = txn.acl_auth_methods.get(changed.name)
        if method is not None and method.modify_index == changed.modify_index:
            methods.append(replace(method, secrets=changed.secrets))
    txn.acl_auth_methods.put_resealed(methods)


HANDLERS: Handlers = {
    BootstrapAcl: bootstrap_acl,
    CreateAclToken: create_acl_token,
    ChangeAclToken: change_acl_token,
    DeleteAclTokens: delete_acl_tokens,
    PutAclPolicies: put_acl_policies,
    DeleteAclPolicies: delete_acl_policies,
    PutAclRole: put_acl_role,
    DeleteAclRoles: delete_acl_roles,
    ResealAclSecrets: reseal_acl_secrets,
}
