"""Auth methods, binding rules and one-time tokens."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import ConflictError, InvalidInputError, NotAllowedError, RefusedError
from orchgit.model.acl import AclAuthMethod, AclBindingRule, AclToken, OneTimeToken
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.acl_logins import (
    DeleteAclAuthMethods,
    DeleteAclBindingRules,
    DeleteOneTimeTokens,
    PutAclAuthMethod,
    PutAclBindingRule,
    PutOneTimeToken,
    UseOneTimeToken,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def put_acl_auth_method(
    txn: WriteTxn, command: PutAclAuthMethod, effects: Effects
) -> AclAuthMethod:
    new = command.method
    known = txn.acl_auth_methods.get(new.name)
    found = known.modify_index if known else 0
    if found != command.expected_modify_index:
        raise ConflictError(f"cannot change auth method {new.name!r}: it has changed; try again")
    if new.default:
        for other in txn.acl_auth_methods.all():
            if other.default and other.type == new.type and other.name != new.name:
                raise InvalidInputError(f"default method already exists: {other.name}")
    stored = replace(
        new,
        create_time_ns=known.create_time_ns if known else txn.now_ns,
        modify_time_ns=txn.now_ns,
        create_index=known.create_index if known else txn.index,
        modify_index=txn.index,
    )
    txn.acl_auth_methods.put(stored)
    effects.note(txn.index, "ACLAuthMethodUpserted", stored)
    return stored


def delete_acl_auth_methods(txn: WriteTxn, command: DeleteAclAuthMethods, effects: Effects) -> None:
    for name in command.names:
        method = txn.acl_auth_methods.get(name)
        if method is None:
            raise RefusedError("ACL auth method not found")
        effects.note(txn.index, "ACLAuthMethodDeleted", method)
    txn.acl_auth_methods.delete_all(command.names)


def put_acl_binding_rule(
    txn: WriteTxn, command: PutAclBindingRule, effects: Effects
) -> AclBindingRule:
    new = command.rule
    if txn.acl_auth_methods.get(new.auth_method) is None:
        raise InvalidInputError(f"ACL auth method {new.auth_method} not found")
    known = txn.acl_binding_rules.get(new.id)
    stored = replace(
        new,
        create_time_ns=known.create_time_ns if known else txn.now_ns,
        modify_time_ns=txn.now_ns,
        create_index=known.create_index if known else txn.index,
        modify_index=txn.index,
    )
    txn.acl_binding_rules.put(stored)
    effects.note(txn.index, "ACLBindingRuleUpserted", stored)
    return stored


def delete_acl_binding_rules(
    txn: WriteTxn, command: DeleteAclBindingRules, effects: Effects
) -> None:
    for rule_id in command.rule_ids:
        rule = txn.acl_binding_rules.get(rule_id)
        if rule is None:
            raise RefusedError("ACL binding rule not found")
        effects.note(txn.index, "ACLBindingRuleDeleted", rule)
    txn.acl_binding_rules.delete_all(command.rule_ids)


def put_one_time_token(txn: WriteTxn, command: PutOneTimeToken, effects: Effects) -> OneTimeToken:
    stored = replace(command.token, create_index=txn.index, modify_index=txn.index)
    txn.acl_one_time_tokens.put(stored)
    return stored


def use_one_time_token(txn: WriteTxn, command: UseOneTimeToken, effects: Effects) -> AclToken:
    known = txn.acl_one_time_tokens.get(command.secret_hash)
    token = txn.acl_tokens.get(known.accessor_id) if known else None
    if known is None or token is None or known.expires_at_ns <= txn.now_ns:
        raise NotAllowedError("Permission denied")
    txn.acl_one_time_tokens.delete_all([known.secret_hash])
    return token


def delete_one_time_tokens(txn: WriteTxn, command: DeleteOneTimeTokens, effects: Effects) -> None:
    txn.acl_one_time_tokens.delete_all(command.secret_hashes)


HANDLERS: Handlers = {
    PutAclAuthMethod: put_acl_auth_method,
    DeleteAclAuthMethods: delete_acl_auth_methods,
    PutAclBindingRule: put_acl_binding_rule,
    DeleteAclBindingRules: delete_acl_binding_rules,
    PutOneTimeToken: put_one_time_token,
    UseOneTimeToken: use_one_time_token,
    DeleteOneTimeTokens: delete_one_time_tokens,
}
