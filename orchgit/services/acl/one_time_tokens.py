"""One-time tokens: a link to the web pages carries one in place of a token's secret."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchgit.clock import SECOND_NS
from orchgit.errors import NotAllowedError, RefusedError, TooLargeError
from orchgit.model.acl import AclToken, OneTimeToken, secret_hash
from orchgit.replication.commands.acl_logins import PutOneTimeToken, UseOneTimeToken
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.resolve import token_of
from orchgit.services.acl.tokens import NewToken, secret_of

LIFETIME_NS = 10 * 60 * SECOND_NS
MAX_OPEN = 10_000
"""Most one-time tokens that were neither used nor have expired."""


@dataclass(frozen=True, slots=True)
class NewOneTimeToken:
    token: OneTimeToken
    secret: str = field(repr=False)


async def create_one_time_token(acl: AclContext, secret: str) -> NewOneTimeToken:
    """Returns a one-time token for the token with this secret, an expired one too."""
    if not secret:
        raise RefusedError("acl token lookup failed: missing secret id")
    with acl.context.snapshot() as snapshot:
        token = token_of(snapshot, secret)
        count = snapshot.acl_one_time_tokens.count()
    if token is None:
        raise NotAllowedError("Permission denied")
    if count >= MAX_OPEN:
        raise TooLargeError(
            f"cannot make a one-time token: {count} are open; each ends in 10 minutes at most"
        )
    one_time_secret = acl.context.ids.new()
    now_ns = acl.context.now_ns()
    made = OneTimeToken(
        secret_hash=secret_hash(one_time_secret),
        accessor_id=token.accessor_id,
        expires_at_ns=now_ns + LIFETIME_NS,
    )
    stored = (await acl.context.propose(PutOneTimeToken(now_ns=now_ns, token=made))).result
    assert isinstance(stored, OneTimeToken)
    return NewOneTimeToken(stored, one_time_secret)


async def use_one_time_token(acl: AclContext, secret: str) -> tuple[NewToken, int]:
    """Returns the token for which the one-time token stands, and the index at which that ended.

    Raises NotAllowedError for one that is unknown, used or expired.
    """
    if not secret:
        raise RefusedError("one-time token lookup failed: missing secret")
    hashed = secret_hash(secret)
    with acl.context.snapshot() as snapshot:
        known = snapshot.acl_one_time_tokens.get(hashed)
    if known is None:  # before the log, so that guesses do not fill it
        raise NotAllowedError("Permission denied")
    command = UseOneTimeToken(now_ns=acl.context.now_ns(), secret_hash=hashed)
    applied = await acl.context.propose(command)
    token = applied.result
    assert isinstance(token, AclToken)
    return NewToken(token, secret_of(acl, token)), applied.index
