"""Who sends a request: the identity behind a secret."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from orchgit.clock import SECOND_NS
from orchgit.model.acl import ANONYMOUS, AclToken, JobAcl, TokenType, secret_hash
from orchgit.model.workload_identity import IdentityClaims
from orchgit.services.secrets.identities import looks_like_token, verified_claims
from orchgit.state.snapshot import Snapshot


class IdentityKind(StrEnum):
    TOKEN = "token"  # noqa: S105 - the name of a kind, no secret
    ANONYMOUS = "anonymous"
    WORKLOAD = "workload"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sends a request, without any secret.

    `policies` are names: those of the token and those of its roles, each once; some may not exist.
    `expiration_time_ns` is 0 where the identity does not expire.
    """

    kind: IdentityKind
    accessor_id: str
    name: str
    type: TokenType
    policies: tuple[str, ...]
    expiration_time_ns: int = 0
    claims: IdentityClaims | None = None
    """What the token of a workload says; its accessor is the id of its allocation."""

    @property
    def is_management(self) -> bool:
        return self.type == TokenType.MANAGEMENT


ANONYMOUS_IDENTITY = Identity(
    kind=IdentityKind.ANONYMOUS,
    accessor_id=ANONYMOUS,
    name="Anonymous Token",
    type=TokenType.CLIENT,
    policies=(ANONYMOUS,),
)


def resolve(snapshot: Snapshot, secret: str, now_ns: int) -> Identity | None:
    """Returns the identity behind `secret`, the anonymous one behind "".

    None for an unknown secret, and for that of an expired token (see `token_of`). A secret that is
    a workload's token counts as long as its allocation runs.
    """
    if not secret:
        return ANONYMOUS_IDENTITY
    if looks_like_token(secret):
        claims = verified_claims(snapshot, secret, now_ns)
        return None if claims is None else workload_identity(snapshot, claims)
    token = token_of(snapshot, secret)
    if token is None or token.is_expired(now_ns):
        return None
    return Identity(
        kind=IdentityKind.TOKEN,
        accessor_id=token.accessor_id,
        name=token.name,
        type=TokenType(token.type),
        policies=policies_of(snapshot, token),
        expiration_time_ns=token.expiration_time_ns,
    )


def workload_identity(snapshot: Snapshot, claims: IdentityClaims) -> Identity:
    """Returns the identity of the task that the claims name, with the policies bound to it."""
    return Identity(
        kind=IdentityKind.WORKLOAD,
        accessor_id=claims.nomad_allocation_id,
        name=claims.sub,
        type=TokenType.CLIENT,
        policies=tuple(
            policy.name
            for policy in snapshot.acl_policies.all()
            if policy.job_acl is not None and _binds(policy.job_acl, claims)
        ),
        expiration_time_ns=claims.exp * SECOND_NS,
        claims=claims,
    )


def _binds(bound: JobAcl, claims: IdentityClaims) -> bool:
    """Returns whether a policy that is bound so counts for the workload: what is "" is any."""
    return bound.namespace == claims.nomad_namespace and all(
        wanted in ("", found)
        for wanted, found in (
            (bound.job_id, claims.nomad_job_id),
            (bound.group, claims.group),
            (bound.task, claims.nomad_task),
        )
    )


def token_of(snapshot: Snapshot, secret: str) -> AclToken | None:
    """Returns the token with this secret, expired ones too."""
    return snapshot.acl_tokens.of_secret(secret_hash(secret))


def policies_of(snapshot: Snapshot, token: AclToken) -> tuple[str, ...]:
    """Returns the names of the token's policies, then of those of its roles, each once."""
    names = dict.fromkeys(token.policies or ())
    for link in token.roles or ():
        role = snapshot.acl_roles.get(link.id)
        if role is not None:
            names.update(dict.fromkeys(policy.name for policy in role.policies))
    return tuple(names)
