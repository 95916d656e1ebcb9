"""Logs tasks in at Vault: a signed identity of the task is exchanged for a token of Vault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.http_json import HttpService, request
from orchgit.errors import NotAllowedError, RefusedError

_REFUSALS = (400, 401, 403, 404, 405)
"""Statuses by which Vault says no; any other may be another one later."""
_SHOWN_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class VaultToken:
    token: str = field(repr=False)
    lease_s: int
    """0: the token does not expire."""
    renewable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultConfig:
    """The Vault of the default cluster."""

    service: HttpService
    namespace: str = ""
    auth_path: str = "jwt-nomad"
    """Where Vault's JWT method is mounted."""
    role: str = ""
    """For tasks that name none; "": the method's own default."""


class Vault:
    """One per agent; it holds no token."""

    def __init__(self, config: VaultConfig) -> None:
        self.config = config

    async def log_in(self, identity: str, role: str, namespace: str) -> VaultToken:
        """Returns a token for a signed identity of a task.

        Raises UnreachableError, RefusedError for an answer that may be another one later, and
        NotAllowedError when Vault says no.
        """
        body = {"jwt": identity}
        if role or self.config.role:
            body["role"] = role or self.config.role
        return await self._token("POST", f"auth/{self.config.auth_path}/login", "", namespace, body)

    async def renew(self, token: str, namespace: str) -> VaultToken:
        """Extends the lease of a token; raises what `log_in` raises."""
        return await self._token("PUT", "auth/token/renew-self", token, namespace, {})

    async def facts(self) -> dict[str, str]:
        """What a node says of its Vault; raises UnreachableError, and RefusedError for what is no
        answer of Vault."""
        reply = await request(
            self.config.service, "GET", "/v1/sys/health?standbyok=true&perfstandbyok=true"
        )
        found = reply.body if isinstance(reply.body, dict) else {}
        version = found.get("version")
        if not isinstance(version, str) or not version:
            raise RefusedError(
                f"cannot use {self.config.service.url}: sys/health was answered with "
                f"{reply.status}, and not as Vault does"
            )
        facts = {
            "vault.accessible": "true",
            "vault.version": version.partition("+")[0],
            "vault.cluster_id": str(found.get("cluster_id", "")),
            "vault.cluster_name": str(found.get("cluster_name", "")),
        }
        return {name: value for name, value in facts.items() if value}

    async def _token(
        self, method: str, path: str, token: str, namespace: str, body: Mapping[str, Any]
    ) -> VaultToken:
        headers = {"X-Vault-Request": "true"}
        if token:
            headers["X-Vault-Token"] = token
        if namespace or self.config.namespace:
            headers["X-Vault-Namespace"] = namespace or self.config.namespace
        reply = await request(self.config.service, method, f"/v1/{path}", body, headers)
        answer = reply.body if isinstance(reply.body, dict) else {}
        auth = answer.get("auth")
        if reply.ok and isinstance(auth, dict):
            granted, lease_s = auth.get("client_token"), auth.get("lease_duration") or 0
            if isinstance(granted, str) and granted and isinstance(lease_s, int) and lease_s >= 0:
                return VaultToken(granted, lease_s, bool(auth.get("renewable")))
        errors = answer.get("errors")
        why = (
            "; ".join(map(str, errors)) if isinstance(errors, list) else "the answer is not Vault's"
        )
        text = (
            f"cannot get a token of Vault: {path} was answered with {reply.status}: "
            f"{why[:_SHOWN_CHARACTERS]}"
        )
        if reply.status in _REFUSALS and isinstance(errors, list):
            raise NotAllowedError(text)
        raise RefusedError(text)
