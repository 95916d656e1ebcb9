"""Access control objects as Nomad's API writes them. Secrets are shown only where a route asks."""

from __future__ import annotations

from typing import Any

from orchgit.api.shapes.nomad_json import ZERO_TIME
from orchgit.durations import to_text
from orchgit.model.acl import (
    ANONYMOUS,
    AclAuthMethod,
    AclBindingRule,
    AclPolicy,
    AclToken,
    RoleLink,
)
from orchgit.model.base import rfc3339_of_ns

ANONYMOUS_TOKEN = {
    "ExpirationTTL": "",
    "AccessorID": ANONYMOUS,
    "SecretID": "",
    "Name": "Anonymous Token",
    "Type": "client",
    "Policies": [ANONYMOUS],
    "Roles": None,
    "Global": False,
    "Hash": None,
    "CreateTime": ZERO_TIME,
    "ExpirationTime": None,
    "CreateIndex": 0,
    "ModifyIndex": 0,
}

NO_ACCESS_CONTROL = {
    **ANONYMOUS_TOKEN,
    "AccessorID": "acls-disabled",
    "Name": "ACLs disabled",
    "Type": "management",
    "Policies": None,
}
"""What everybody is while access control is off."""


def token_stub(token: AclToken, roles: list[RoleLink] | None) -> dict[str, Any]:
    """Returns a token as lists show it; `roles` are those that still exist."""
    return {
        "AccessorID": token.accessor_id,
        "Name": token.name,
        "Type": token.type,
        "Policies": token.policies,
        "Roles": roles,
        "Global": token.is_global,
        "Hash": token.digest,
        "CreateTime": rfc3339_of_ns(token.create_time_ns),
        "ExpirationTime": rfc3339_of_ns(expires) if (expires := token.expiration_time_ns) else None,
        "CreateIndex": token.create_index,
        "ModifyIndex": token.modify_index,
    }


def shown_token(token: AclToken, roles: list[RoleLink] | None, secret: str) -> dict[str, Any]:
    """Returns the whole token, with its secret."""
    ttl_ns = token.expiration_ttl_ns
    return {
        **token_stub(token, roles),
        "ExpirationTTL": to_text(ttl_ns) if ttl_ns else "",
        "SecretID": secret,
    }


def policy_stub(policy: AclPolicy) -> dict[str, Any]:
    return {
        "Name": policy.name,
        "Description": policy.description,
        "JobACL": policy.job_acl,
        "Hash": policy.digest,
        "CreateIndex": policy.create_index,
        "ModifyIndex": policy.modify_index,
    }


def shown_policy(policy: AclPolicy, rules: Any) -> dict[str, Any]:
    """Returns the whole policy; `rules` are what its text means, or None."""
    return {**policy_stub(policy), "Rules": policy.rules, "RulesJSON": rules}


def auth_method_stub(method: AclAuthMethod) -> dict[str, Any]:
    return {
        "Name": method.name,
        "Type": method.type,
        "Default": method.default,
        "Hash": method.digest,
        "CreateIndex": method.create_index,
        "ModifyIndex": method.modify_index,
    }


def binding_rule_stub(rule: AclBindingRule) -> dict[str, Any]:
    return {
        "ID": rule.id,
        "Description": rule.description,
        "AuthMethod": rule.auth_method,
        "Hash": rule.digest,
        "CreateIndex": rule.create_index,
        "ModifyIndex": rule.modify_index,
    }
