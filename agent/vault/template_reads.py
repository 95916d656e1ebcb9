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
from orchgit.clock import Clock, SystemClock
from orchgit.errors import RefusedError, UnreachableError
from orchgit.model.base import NS_PER_S

_INTERVAL_S = 300.0
"""Between reads of what has no lease."""
_NOT_FOUND = 404
_NO_ANSWERS = (400, 403, 404)
"""Of a token that may not ask for the engine of a path: then it is one of version 1."""
_AT_ONCE = 2
"""Requests under way: each holds a thread."""
_SHORTEST_S = 1.0
_NEVER_S = 365 * 24 * 3600.0
"""Until data without a lease is written again: writing may have effects."""
_SHOWN = {
    QueryKind.VAULT_SECRET: "read",
    QueryKind.VAULT_LIST: "list",
    QueryKind.VAULT_WRITE: "write",
    QueryKind.VAULT_PKI: "pki",
}
_RENEWED_AFTER, _REPLACED_AFTER = 0.5, 0.85
"""Shares of a lease after which it is renewed, or, where it cannot be, read anew."""


class VaultReads:
    """One per agent; it holds no token."""

    kinds = frozenset(_SHOWN)
    is_per_task = True

    def __init__(self, config: VaultConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def read(self, query: Query, reader: Reader, last: OutsideValue | None) -> OutsideValue:
        """Raises UnreachableError and RefusedError. A lease is renewed as long as Vault does so:
        its secret stays. Data is written again only when what it gave ends."""
        shown = f"vault.{_SHOWN[query.kind]}({query.name})"
        access = reader.vault_access()
        if access is None:
            raise RefusedError(f"{shown}: the task has no token of Vault; add a vault block to it")
        try:
            return await self._value(query, shown, access, last)
        except UnreachableError as error:
            raise UnreachableError(f"{shown}: {error}") from None
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
            raise RefusedError(f"{shown}: cannot read the answer: it is not Vault's") from None

    async def _value(
        self, query: Query, shown: str, access: VaultAccess, last: OutsideValue | None
    ) -> OutsideValue:
        if last is not None and query.kind in (QueryKind.VAULT_SECRET, QueryKind.VAULT_WRITE):
            renewed = await self._renewed(access, last)
            if renewed is not None:
                return renewed
        reply = await self._reply(access, query)
        match query.kind:
            case QueryKind.VAULT_LIST:
                return OutsideValue(_names(reply, shown), _INTERVAL_S)
            case QueryKind.VAULT_PKI:
                return _certificate(reply, shown, self._clock.now_ns() / NS_PER_S)
        return _secret(reply, shown, query, self._clock.now_ns() / NS_PER_S)

    async def _reply(self, access: VaultAccess, query: Query) -> Reply:
        path, _, options = query.name.partition("?")
        is_list = query.kind is QueryKind.VAULT_LIST
        path, is_versioned = await self._path(access, path, "metadata" if is_list else "data")
        if query.kind in (QueryKind.VAULT_SECRET, QueryKind.VAULT_LIST):
            asked = "list=true" if is_list else quote(options, safe="=&")
            return await self._ask(access, "GET", f"{path}?{asked}")
        pairs = (each.partition("=") for each in query.data)
        data: dict[str, Any] = {key.strip(): value.strip() for key, _, value in pairs}
        return await self._ask(access, "PUT", path, {"data": data} if is_versioned else data)

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

    async def _path(self, access: VaultAccess, path: str, part: str) -> tuple[str, bool]:
        """The path of the API, and whether it is of a key-value engine of version 2: that has
        another part."""
        quoted = quote(path, safe="/")
        reply = await self._ask(access, "GET", f"sys/internal/ui/mounts/{quoted}")
        if not isinstance(reply.body, dict) or not (reply.ok or reply.status in _NO_ANSWERS):
            # Of the wrong path, everything would seem to be absent.
            raise ValueError("it is not known which engine has the path")
        mount = _table(reply.body, "data") if reply.ok else {}
        name = str(mount.get("path") or "")
        if _table(mount, "options").get("version") != "2" or not f"{path}/".startswith(name):
            return quoted, False
        rest = f"{path}/".removeprefix(name).rstrip("/")
        if rest.split("/")[0] == part:
            return quoted, True
        return quote(f"{name}{part}/{rest}", safe="/"), True

    async def _ask(self, access: VaultAccess, method: str, path: str, body: object = None) -> Reply:
        headers = {"X-Vault-Request": "true", "X-Vault-Token": access.token}
        if namespace := access.namespace or self._config.namespace:
            headers["X-Vault-Namespace"] = namespace
        async with self._turns:
            return await request(self._config.service, method, f"/v1/{path}", body, headers)


def _secret(reply: Reply, shown: str, query: Query, now_s: float) -> OutsideValue:
    is_written = query.kind is QueryKind.VAULT_WRITE
    _refuse_others(reply, shown)
    answer = reply.body if isinstance(reply.body, dict) else {}
    data = answer.get("data")
    if is_written:
        _refuse_errors(reply, shown)
        data = data if isinstance(data, dict) else {}  # Vault need not answer anything
    is_deleted = isinstance(data, dict) and "metadata" in data and data.get("data") is None
    if reply.status == _NOT_FOUND or (reply.ok and (not isinstance(data, dict) or is_deleted)):
        raise RefusedError(f"{shown}: no secret exists at {query.name}")
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
    next_s = _NEVER_S if is_written else _INTERVAL_S
    if value["LeaseID"] and lease_s:
        next_s = lease_s * (_RENEWED_AFTER if value["Renewable"] else _REPLACED_AFTER)
    elif "rotation_period" in data and isinstance(data.get("ttl"), int):
        next_s = data["ttl"] + _SHORTEST_S  # when Vault itself changes it
    elif "certificate" in data and isinstance(data.get("expiration"), int):
        next_s = (data["expiration"] - now_s) * _REPLACED_AFTER
    return OutsideValue(value, max(_SHORTEST_S, next_s))


def _certificate(reply: Reply, shown: str, now_s: float) -> OutsideValue:
    _refuse_errors(reply, shown)
    data = _table(reply.body, "data")
    end_s = data.get("expiration")
    if not data.get("certificate") or not isinstance(end_s, int):
        raise RefusedError(
            f"{shown}: cannot read the answer: it has no certificate with an expiration"
        )
    chain = data.get("ca_chain")
    value = {
        "Cert": str(data["certificate"]),
        "Key": str(data.get("private_key") or ""),
        "CA": str(data.get("issuing_ca") or ""),
        "CAChain": list(map(str, chain)) if isinstance(chain, list) else [],
    }
    return OutsideValue(value, max(_SHORTEST_S, (end_s - now_s) * _REPLACED_AFTER))


def _names(reply: Reply, shown: str) -> list[str]:
    """Those below a path, in order; none where nothing is there."""
    _refuse_others(reply, shown)
    if reply.status == _NOT_FOUND:
        return []
    _refuse_errors(reply, shown)
    keys = _table(reply.body, "data").get("keys")
    return sorted(map(str, keys)) if isinstance(keys, list) else []


def _refuse_others(reply: Reply, shown: str) -> None:
    """Raises RefusedError for a page of something between the agent and Vault, whatever its status:
    nothing must seem to be absent because of it."""
    if isinstance(reply.body, str) or (reply.status == _NOT_FOUND and reply.body is None):
        raise RefusedError(
            f"{shown}: cannot read the answer: it is not Vault's, with status {reply.status}"
        )


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
