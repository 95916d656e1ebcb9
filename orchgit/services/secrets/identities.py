"""Workload identities: JSON web tokens that say which task of which allocation holds them.

The active root key signs them; every root key that is stored verifies them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from orchgit.clock import SECOND_NS
from orchgit.errors import InvalidInputError, NotAllowedError, NotFoundError
from orchgit.model.allocation import Allocation
from orchgit.model.job import Job
from orchgit.model.variable import RootKey
from orchgit.model.workload_identity import (
    DEFAULT_AUDIENCE,
    IdentityClaims,
    SignedIdentity,
    WantedIdentity,
    WorkloadIdentity,
    identities_of,
)
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.secrets.sealing import PublicKey, is_signed
from orchgit.state.snapshot import Snapshot

T = TypeVar("T")
MAX_PER_REQUEST = 100
MAX_TOKEN_CHARACTERS = 8192
_ALGORITHM = "RS256"
_CLOCK_SKEW_S = 60
"""How far the clocks of the servers may differ: a token may be used as soon as it is signed."""


class _Header(msgspec.Struct):
    alg: str
    kid: str
    typ: str = "JWT"


@dataclass(frozen=True, slots=True)
class IdentityUseCases:
    """Signs the identities of tasks for the agents that run these. `issuer` is the address at which
    others find this cluster's public keys, or ''."""

    context: UseCaseContext
    keyring: Keyring
    issuer: str = ""

    async def sign(
        self, node_id: str, node_secret: str, wanted: Sequence[WantedIdentity]
    ) -> list[SignedIdentity]:
        """Returns the tokens in the order of `wanted`.

        Raises NotAllowedError for a wrong secret of the node, and NotFoundError for an allocation
        that does not run on it or an identity that its task does not have.
        """
        if len(wanted) > MAX_PER_REQUEST:
            raise InvalidInputError(
                f"cannot sign {len(wanted)} identities at once: at most {MAX_PER_REQUEST}"
            )
        key = await self.keyring.active_key(self.context)
        now_ns = self.context.now_ns()
        with self.context.snapshot() as snapshot:
            node = snapshot.nodes.get(node_id)
            if node is None or not hmac.compare_digest(node.secret_id, node_secret):
                raise NotAllowedError(
                    f"cannot sign identities for node {node_id}: it is unknown, or the secret is "
                    "not the one it was registered with"
                )
            claims = [self._claims(snapshot, node_id, each, now_ns) for each in wanted]
        tokens = await asyncio.to_thread(self._signed, key, claims)
        return [
            SignedIdentity(token, each.exp * SECOND_NS)
            for each, token in zip(claims, tokens, strict=True)
        ]

    def _claims(
        self, snapshot: Snapshot, node_id: str, wanted: WantedIdentity, now_ns: int
    ) -> IdentityClaims:
        alloc = snapshot.allocations.get(wanted.alloc_id)
        if alloc is None or alloc.node_id != node_id or alloc.is_client_terminal:
            raise NotFoundError(
                f"cannot sign identities of allocation {wanted.alloc_id}: it does not run on node "
                f"{node_id}"
            )
        job = snapshot.job_versions.of_allocation(alloc)
        group = job.group(alloc.task_group) if job is not None else None
        task = group.task(wanted.task) if group is not None else None
        found = {each.name: each for each in identities_of(task)} if task is not None else {}
        if job is None or wanted.identity not in found:
            raise NotFoundError(
                f"cannot sign identity {wanted.identity!r} of task {wanted.task!r}: its job has no "
                "such identity"
            )
        return claims_of(
            job, alloc, wanted.task, found[wanted.identity], now_ns, self.context.ids.new()
        )

    def _signed(self, key: RootKey, claims: Sequence[IdentityClaims]) -> list[str]:
        if self.issuer:
            claims = [msgspec.structs.replace(each, iss=self.issuer) for each in claims]
        return [token_of(self.keyring, key, each) for each in claims]


def token_of(keyring: Keyring, key: RootKey, claims: msgspec.Struct) -> str:
    """Returns the claims as a JSON web token that the root key signs."""
    head = _part(msgspec.json.encode(_Header(_ALGORITHM, key.key_id)))
    text = f"{head}.{_part(msgspec.json.encode(claims))}"
    return f"{text}.{_part(keyring.sign(key, text.encode()))}"


def claims_of(
    job: Job,
    alloc: Allocation,
    task: str,
    identity: WorkloadIdentity,
    now_ns: int,
    token_id: str,
) -> IdentityClaims:
    job_id = job.parent_id or job.id
    audience = identity.audience or [DEFAULT_AUDIENCE]
    names = (job.region, alloc.namespace, job_id, alloc.task_group, task, identity.name)
    now_s = now_ns // SECOND_NS
    return IdentityClaims(
        nomad_namespace=alloc.namespace,
        nomad_job_id=job_id,
        nomad_allocation_id=alloc.id,
        nomad_task=task,
        sub=":".join(names),
        aud=audience[0] if len(audience) == 1 else audience,
        iat=now_s,
        nbf=now_s,
        jti=token_id,
        exp=now_s + max(1, identity.ttl_ns // SECOND_NS) if identity.ttl_ns else 0,
    )


def looks_like_token(text: str) -> bool:
    """Returns whether the text is shaped like a JSON web token, verified or not."""
    return len(text) <= MAX_TOKEN_CHARACTERS and text.count(".") == 2


def verified_claims(snapshot: Snapshot, token: str, now_ns: int) -> IdentityClaims | None:
    """Returns what a workload's token says; None unless it is this cluster's, for this cluster's
    own use, in its time, and of an allocation that has not ended."""
    claims = signed_claims(snapshot, token)
    if claims is None or DEFAULT_AUDIENCE not in claims.audiences:
        return None
    now_s = now_ns / SECOND_NS
    if now_s + _CLOCK_SKEW_S < claims.nbf or (claims.exp and now_s >= claims.exp):
        return None
    alloc = snapshot.allocations.get(claims.nomad_allocation_id)
    if alloc is None or alloc.is_client_terminal or alloc.namespace != claims.nomad_namespace:
        return None
    return claims


def signed_claims(snapshot: Snapshot, token: str) -> IdentityClaims | None:
    """Returns the claims of a task's token that a root key of this cluster signed, or None."""
    return signed_payload(snapshot, token, IdentityClaims)


def signed_payload(snapshot: Snapshot, token: str, kind: type[T]) -> T | None:
    """Returns the payload of a token that a root key of this cluster signed, or None."""
    if not looks_like_token(token):
        return None
    signed, _, signature = token.rpartition(".")
    head, _, payload = signed.partition(".")
    try:
        header = msgspec.json.decode(_bytes(head), type=_Header)
        key = snapshot.root_keys.get(header.kid) if header.alg == _ALGORITHM else None
        if key is None or not is_signed(
            PublicKey(key.public_n, key.public_e), signed.encode(), _bytes(signature)
        ):
            return None
        return msgspec.json.decode(_bytes(payload), type=kind)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return None


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(part: str) -> bytes:
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
