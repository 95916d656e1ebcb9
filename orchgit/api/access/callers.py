"""Finds the caller behind a secret: its identity and the rights of its policies, both cached.

What was found for a secret stays valid until one of the tables changes from which it follows; the
key of the cache is a hash, so that no secret is kept in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from orchgit.acl.rights import MANAGEMENT, Rights, Workload, rights_of_texts
from orchgit.acl.rules import readable_rules
from orchgit.api.access.caller import EXPIRED_TOKEN, UNKNOWN_TOKEN, BadTokenReason, Caller
from orchgit.model.workload_identity import IdentityClaims
from orchgit.services.acl.resolve import Identity, resolve, token_of, workload_identity
from orchgit.services.identifiers import is_uuid
from orchgit.services.secrets.identities import looks_like_token
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store

_log = structlog.get_logger(component="acl")
_TABLES = ("acl_tokens", "acl_policies", "acl_roles")
_WORKLOAD_TABLES = (*_TABLES, "allocations", "root_keys")
"""What the rights of a workload follow from: its token counts while its allocation runs."""
_MOST_KEPT = 10_000
_NO_PARTS = (
    "failed to parse signed token: go-jose/go-jose: compact JWS format must have three parts"
)
_NO_KEY = "missing key ID header"


@dataclass(slots=True)
class _Known:
    """What was found for a secret. It holds while nothing was committed after `position`, or while
    its tables have not changed after `since`; both are (index, replacements of the state)."""

    found: Caller | BadTokenReason
    position: tuple[int, int]
    since: tuple[int, int]
    ends_ns: int | None


def _end_of(found: Caller | BadTokenReason) -> int | None:
    """Returns when it ends by itself, in Unix nanoseconds; None: it does not."""
    if isinstance(found, BadTokenReason):
        return None if found.is_lasting else 0
    return (found.identity.expiration_time_ns or None) if found.identity is not None else None


class TokenCallers:
    """The callers of one server."""

    def __init__(self, store: Callable[[], Store], now_ns: Callable[[], int]) -> None:
        self._store = store
        self._now_ns = now_ns
        self._found: dict[bytes, _Known] = {}
        self._rights: dict[tuple[str, ...], Rights] = {}
        """By the texts of the policies: after a snapshot was restored, a policy with the same name
        and index may have another text."""
        self._logged: dict[str, str] = {}
        """Policies that cannot be read, with the texts that were logged."""

    def caller(self, secret: str) -> Caller | BadTokenReason:
        """Returns the caller with this secret, "" is the anonymous one; or why it is nobody's."""
        store = self._store()
        watch = store.watch
        position = watch.applied_index, watch.replacements
        key = hashlib.blake2s(secret.encode()).digest()
        known = self._found.get(key)
        if known is not None and known.position == position and self._is_in_time(known):
            return known.found
        tables = _WORKLOAD_TABLES if looks_like_token(secret) else _TABLES
        since = watch.index(tables), watch.replacements
        if known is not None and known.since == since and self._is_in_time(known):
            known.position = position
            return known.found
        with store.snapshot() as snapshot:
            found = self._read(snapshot, secret)
        if len(self._found) >= _MOST_KEPT:
            self._found.clear()
        self._found[key] = _Known(found, position, since, _end_of(found))
        return found

    def workload_rights(self, snapshot: Snapshot, claims: IdentityClaims) -> Rights:
        """Returns the rights of the task that the claims name."""
        return self._rights_of(snapshot, workload_identity(snapshot, claims))

    def _is_in_time(self, known: _Known) -> bool:
        return known.ends_ns is None or self._now_ns() < known.ends_ns

    def _read(self, snapshot: Snapshot, secret: str) -> Caller | BadTokenReason:
        identity = resolve(snapshot, secret, self._now_ns())
        if identity is not None:
            return Caller(self._rights_of(snapshot, identity), identity)
        if is_uuid(secret):
            return UNKNOWN_TOKEN if token_of(snapshot, secret) is None else EXPIRED_TOKEN
        return BadTokenReason(_NO_KEY if looks_like_token(secret) else _NO_PARTS)

    def _rights_of(self, snapshot: Snapshot, identity: Identity) -> Rights:
        if identity.is_management:
            return MANAGEMENT
        found = [snapshot.acl_policies.get(name) for name in identity.policies]
        policies = [each for each in found if each is not None]
        for each in policies:
            if readable_rules(each.rules) is None and self._logged.get(each.name) != each.rules:
                self._logged[each.name] = each.rules
                _log.error(
                    "cannot read a policy: tokens with it are refused until it is written again",
                    policy=each.name,
                )
        key = tuple(each.rules for each in policies)
        if (claims := identity.claims) is not None:
            workload = Workload(
                claims.nomad_namespace, claims.nomad_job_id, claims.group, claims.nomad_task
            )
            return rights_of_texts(key, workload)
        if key not in self._rights:
            if len(self._rights) >= _MOST_KEPT:
                self._rights.clear()
            self._rights[key] = rights_of_texts(key)
        return self._rights[key]
