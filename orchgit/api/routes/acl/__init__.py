"""Routes below `/v1/acl`: tokens, policies, roles, auth methods, binding rules, logins."""

from __future__ import annotations

from orchgit.api.routes.acl import tokens

ENDPOINTS = [*tokens.ENDPOINTS]
