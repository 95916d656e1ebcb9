"""Auth methods, binding rules and one-time tokens."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.acl import AclAuthMethod, AclBindingRule, OneTimeToken
from orchgit.replication.commands.entry import Entry


class PutAclAuthMethod(Entry, tag="put-acl-auth-method", kw_only=True):
    """`expected_modify_index` is that of the method whose unset fields were taken over; 0: new."""

    since: ClassVar[int] = 5

    method: AclAuthMethod
    expected_modify_index: int


class DeleteAclAuthMethods(Entry, tag="delete-acl-auth-methods", kw_only=True):
    """Binding rules of deleted methods stay."""

    since: ClassVar[int] = 5

    names: list[str]


class PutAclBindingRule(Entry, tag="put-acl-binding-rule", kw_only=True):
    since: ClassVar[int] = 5

    rule: AclBindingRule


class DeleteAclBindingRules(Entry, tag="delete-acl-binding-rules", kw_only=True):
    since: ClassVar[int] = 5

    rule_ids: list[str]


class PutOneTimeToken(Entry, tag="put-one-time-token", kw_only=True):
    since: ClassVar[int] = 5

    token: OneTimeToken


class UseOneTimeToken(Entry, tag="use-one-time-token", kw_only=True):
    """Deletes it, and answers with the token for which it stands."""

    since: ClassVar[int] = 5

    secret_hash: str


class DeleteOneTimeTokens(Entry, tag="delete-one-time-tokens", kw_only=True):
    since: ClassVar[int] = 5

    secret_hashes: list[str]


AclLoginCommand = (
    PutAclAuthMethod
    | DeleteAclAuthMethods
    | PutAclBindingRule
    | DeleteAclBindingRules
    | PutOneTimeToken
    | UseOneTimeToken
    | DeleteOneTimeTokens
)
