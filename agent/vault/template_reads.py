"""What the templates of a task read of Vault, with the task's own token."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from agent.http_json import Reply, request
from agent.templates.cluster_reads import OutsideValue, Reader, VaultAccess
from agent.templates.queries import Query, QueryKind
from agent.vault.tokens import VaultConfig
from orchgit.errors import RefusedError, UnreachableError

_INTERVAL_S = 300.0
"""Between reads of what has no lease."""
_NOT_FOUND = 404
_AT_ONCE = 2
"""Requests under way: each holds a thread."""
_SHORTEST_S = 1.0
_RENEWED_AFTER, _REPLACED_AFTER = 0.5, 0.85
"""Shares of a lease after which it is renewed, or, where it cannot be, read anew."""


class VaultReads:
    """One per agent; it holds no token."""

    kinds = frozenset([QueryKind.VAULT_SECRET, QueryKind.VAULT_LIST])
    is_per_task = True

    def __init__(self, config: VaultConfig) -> None:
        self._config = config
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def read(self, query: Query, reader: Reader, last: OutsideValue | None) -> OutsideValue:
        """Raises UnreachableError and RefusedError. A lease is renewed as long as Vault does so:
        its secret stays."""
        is_list = query.kind is QueryKind.VAULT_LIST
        shown = f"vault.{'list' if is_list else 'read'}({query.name})"
        access = reader.vault_access()
        if access is None:
            raise RefusedError(f"{shown}: the task has no token of Vault; add a vault block to it")
        try:
            if last is not None and not is_list:
                renewed = await self._renewed(access, last)
                if renewed is not None:
                    return renewed
            path, _, options = query.name.partition("?")
            path = await self._path(access, path, "metadata" if is_list else "data")
            asked = "list=true" if is_list else quote(options, safe="=&")
            reply = await self._ask(access, "GET", f"{path}?{asked}")
        except UnreachableError as error:
            raise UnreachableError(f"{shown}: {error}") from None
        if is_list:
            return OutsideValue(_names(reply, shown), _INTERVAL_S)
        return _secret(reply, shown, query.name)

    async def _renewed(self, access: VaultAccess, last: OutsideValue) -> OutsideValue | None:
        """None where the secret must be read again."""
        lease_s = last.value["LeaseDuration"]
        if not last.value["LeaseID"] or not last.value["Renewable"]:
            return None
        body = {"lease_id": last.value["LeaseID"], "increment": lease_s}
        reply = await self._ask(access, "PUT", "sys/leases/renew", body)
        answer = reply.body if reply.ok and isinstance(reply.body, dict) else {}
        left_s = int(answer.get("lease_duration") or 0)
        if left_s < lease_s * _RENEWED_AFTER:  # its longest time is nearly over
            return None
        return replace(last, next_s=max(_SHORTEST_S, left_s * _RENEWED_AFTER))

    async def _path(self, access: VaultAccess, path: str, part: str) -> str:
        """The path of the API: that of a key-value engine of version 2 has another part."""
        quoted = quote(path, safe="/")
        reply = await self._ask(access, "GET", f"sys/internal/ui/mounts/{quoted}")
        mount = _table(reply.body, "data") if reply.ok else {}
        name = str(mount.get("path") or "")
        if _table(mount, "options").get("version") != "2" or not f"{path}/".startswith(name):
            return quoted
        rest = f"{path}/".removeprefix(name).rstrip("/")
        if rest.split("/")[0] == part:
            return quoted
        return quote(f"{name}{part}/{rest}", safe="/")

    async def _ask(self, access: VaultAccess, method: str, path: str, body: object = None) -> Reply:
        headers = {"X-Vault-Request": "true", "X-Vault-Token": access.token}
        if namespace := access.namespace or self._config.namespace:
            headers["X-Vault-Namespace"] = namespace
        async with self._turns:
            return await request(self._config.service, method, f"/v1/{path}", body, headers)


def _secret(reply: Reply, shown: str, path: str) -> OutsideValue:
    answer = reply.body if isinstance(reply.body, dict) else {}
    data = answer.get("data")
    is_deleted = isinstance(data, dict) and "metadata" in data and data.get("data") is None
    if reply.status == _NOT_FOUND or (reply.ok and (not isinstance(data, dict) or is_deleted)):
        raise RefusedError(f"{shown}: no secret exists at {path}")
    _refuse_errors(reply, shown)
    assert isinstance(data, dict)
    lease_s = int(answer.get("lease_duration") or 0)
    value = {
        "RequestID": "",
        "LeaseID": str(answer.get("lease_id") or ""),
        "LeaseDuration": lease_s,
        "Renewable": bool(answer.get("renewable")),
        "Data": data,
        "Warnings": answer.get("warnings") or [],
    }
    next_s = _INTERVAL_S
    if value["LeaseID"] and lease_s:
        next_s = lease_s * (_RENEWED_AFTER if value["Renewable"] else _REPLACED_AFTER)
    elif "rotation_period" in data and isinstance(data.get("ttl"), int):
        next_s = data["ttl"] + _SHORTEST_S  # when Vault itself changes it
    return OutsideValue(value, max(_SHORTEST_S, next_s))


def _names(reply: Reply, shown: str) -> list[str]:
    """Those below a path, in order; none where nothing is there."""
    if reply.status == _NOT_FOUND:
        return []
    _refuse_errors(reply, shown)
    keys = _table(reply.body, "data").get("keys")
    return sorted(map(str, keys)) if isinstance(keys, list) else []


def _refuse_errors(reply: Reply, shown: str) -> None:
    """Raises RefusedError."""
    if reply.ok:
        return
    errors = reply.body.get("errors") if isinstance(reply.body, dict) else None
    why = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
    raise RefusedError(f"{shown}: Code: {reply.status}. Errors: {why}")


def _table(value: object, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, dict) else {}
