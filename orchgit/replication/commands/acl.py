"""ACL tokens, policies and roles."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.acl import AclAuthMethod, AclPolicy, AclRole, AclToken
from orchgit.replication.commands.entry import Entry


class BootstrapAcl(Entry, tag="bootstrap-acl", kw_only=True):
    """The first management token. A later one needs `reset_index`, the index of the last."""

    since: ClassVar[int] = 5

    token: AclToken
    reset_index: int = 0


class CreateAclToken(Entry, tag="create-acl-token", kw_only=True):
    since: ClassVar[int] = 5

    token: AclToken


class ChangeAclToken(Entry, tag="change-acl-token", kw_only=True):
    """Stores name, type, policies and roles of a known token; the rest of the token stays."""

    since: ClassVar[int] = 5

    token: AclToken


class DeleteAclTokens(Entry, tag="delete-acl-tokens", kw_only=True):
    """Deletes none where one is unknown, unless `missing_ok`."""

    since: ClassVar[int] = 5

    accessor_ids: list[str]
    missing_ok: bool = False


class PutAclPolicies(Entry, tag="put-acl-policies", kw_only=True):
    since: ClassVar[int] = 5

    policies: list[AclPolicy]


class DeleteAclPolicies(Entry, tag="delete-acl-policies", kw_only=True):
    """Unknown names are passed over."""

    since: ClassVar[int] = 5

    names: list[str]


class PutAclRole(Entry, tag="put-acl-role", kw_only=True):
    since: ClassVar[int] = 5

    role: AclRole


class DeleteAclRoles(Entry, tag="delete-acl-roles", kw_only=True):
    since: ClassVar[int] = 5

    role_ids: list[str]


class ResealAclSecrets(Entry, tag="reseal-acl-secrets", kw_only=True):
    """The same secrets under another root key; nothing of what has changed since it was read."""

    since: ClassVar[int] = 5

    tokens: list[AclToken]
    methods: list[AclAuthMethod]


AclCommand = (
    BootstrapAcl
    | CreateAclToken
    | ChangeAclToken
    | DeleteAclTokens
    | PutAclPolicies
    | DeleteAclPolicies
    | PutAclRole
    | DeleteAclRoles
    | ResealAclSecrets
)
