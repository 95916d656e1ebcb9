"""Access control objects as Nomad's API writes them. Secrets are shown only where a route asks."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from orchgit.api.shapes.nomad_json import ZERO_TIME
from orchgit.durations import to_text
from orchgit.model.acl import (
    ANONYMOUS,
    AclAuthMethod,
    AclBindingRule,
    AclPolicy,
    AclRole,
    AclToken,
    AuthMethodConfig,
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
    return {
        **token_stub(token, roles),
        "ExpirationTTL": _duration(token.expiration_ttl_ns),
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


def shown_auth_method(method: AclAuthMethod) -> dict[str, Any]:
    """Returns the whole method, which holds a word in place of each of its secrets."""
    config = method.config or AuthMethodConfig()
    tree = {
        **msgspec.to_builtins(config),
        **{name: _duration(value) for name, value in _leeways(config).items()},
    }
    return {
        **auth_method_stub(method),
        "TokenLocality": method.token_locality,
        "TokenNameFormat": method.token_name_format,
        "MaxTokenTTL": to_text(method.max_token_ttl_ns),
        "Config": tree,
        "CreateTime": rfc3339_of_ns(method.create_time_ns),
        "ModifyTime": rfc3339_of_ns(method.modify_time_ns),
    }


def _leeways(config: AuthMethodConfig) -> dict[str, int]:
    return {
        "ExpirationLeeway": config.expiration_leeway_ns,
        "NotBeforeLeeway": config.not_before_leeway_ns,
        "ClockSkewLeeway": config.clock_skew_leeway_ns,
    }


def _duration(value_ns: int) -> str:
    return to_text(value_ns) if value_ns else ""


def shown_binding_rule(rule: AclBindingRule) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(rule),
        "CreateTime": rfc3339_of_ns(rule.create_time_ns),
        "ModifyTime": rfc3339_of_ns(rule.modify_time_ns),
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


AclObject = AclToken | AclPolicy | AclRole | AclAuthMethod | AclBindingRule


def told_object(subject: AclObject) -> Any:
    """Returns an object as events show it: without any secret."""
    if isinstance(subject, AclToken):
        listed = replace(subject, policies=subject.policies or [])
        return shown_token(listed, subject.roles or [], "")
    if isinstance(subject, AclPolicy):
        return shown_policy(subject, None)
    if isinstance(subject, AclAuthMethod):
        return shown_auth_method(subject)
    return shown_binding_rule(subject) if isinstance(subject, AclBindingRule) else subject
