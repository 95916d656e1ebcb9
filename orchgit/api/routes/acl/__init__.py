"""Routes below `/v1/acl`: tokens, policies, roles, auth methods, binding rules, logins."""

from __future__ import annotations

from orchgit.api.routes.acl import (
    auth_methods,
    binding_rules,
    introductions,
    logins,
    one_time_tokens,
    policies,
    roles,
    tokens,
)

ENDPOINTS = [
    # Before the path of a token that has any accessor.
    *one_time_tokens.ENDPOINTS,
    *tokens.ENDPOINTS,
    *policies.ENDPOINTS,
    *roles.ENDPOINTS,
    *auth_methods.ENDPOINTS,
    *binding_rules.ENDPOINTS,
    *introductions.ENDPOINTS,
    *logins.ENDPOINTS,
]
