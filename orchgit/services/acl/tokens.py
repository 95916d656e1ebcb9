"""Creates, changes, deletes and shows tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from orchgit.durations import to_text
from orchgit.errors import InvalidInputError
from orchgit.model.acl import AclToken, RoleLink, TokenType, contents_digest, secret_hash
from orchgit.replication.commands.acl import ChangeAclToken, CreateAclToken, DeleteAclTokens
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.settings import AclSettings
from orchgit.services.identifiers import is_uuid
from orchgit.services.jobs.admission import multiple_errors
from orchgit.state.snapshot import Snapshot
from orchgit.whole_number import MOST

MAX_NAME_LENGTH = 256
MAX_LINKS = 1024
"""Most policies, and most roles, of one token."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token with its secret in plain, for an answer to a caller who may see it."""

    token: AclToken
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class WantedToken:
    """What a caller asks for. Roles are named by id or by name.

    `accessor_id` is "" for a new token; `secret` is "" unless the caller chooses it.
    """

    name: str = ""
    type: str = ""
    policies: list[str] | None = None
    roles: Sequence[RoleLink] = ()
    is_global: bool = False
    accessor_id: str = ""
    secret: str = field(default="", repr=False)
    expiration_ttl_ns: int = 0
    expiration_time_ns: int = 0


async def put_token(acl: AclContext, wanted: WantedToken) -> NewToken:
    """Creates a token, or changes the one of `wanted.accessor_id`.

    A caller who chooses the accessor of a new token has to choose its secret as well.
    """
    with acl.context.snapshot() as snapshot:
        known = snapshot.acl_tokens.get(wanted.accessor_id) if wanted.accessor_id else None
    if known is not None:
        return await _change(acl, known, wanted)
    if wanted.accessor_id and not wanted.secret:
        raise InvalidInputError(f"cannot find token {wanted.accessor_id}")
    return await create_token(acl, wanted, acl.settings)


async def create_token(acl: AclContext, wanted: WantedToken, limits: AclSettings) -> NewToken:
    """`limits` has the shortest and the longest time to live of a token that expires."""
    if wanted.secret and not is_uuid(wanted.secret):
        raise InvalidInputError("invalid acl token")
    now_ns = acl.context.now_ns()
    expires_ns = wanted.expiration_time_ns
    if not expires_ns and wanted.expiration_ttl_ns:
        expires_ns = now_ns + wanted.expiration_ttl_ns
    _check(_problems(wanted) + _expiration_problems(wanted, now_ns, expires_ns, limits))
    token = AclToken(
        accessor_id=wanted.accessor_id,
        expiration_ttl_ns=wanted.expiration_ttl_ns,
        expiration_time_ns=expires_ns,
        create_time_ns=now_ns,
        is_global=wanted.is_global,
    )
    made = await sealed_token(acl, _filled_in(acl, token, wanted), wanted.secret)
    command = CreateAclToken(now_ns=now_ns, token=made.token)
    stored = (await acl.context.propose(command)).result
    assert isinstance(stored, AclToken)
    return NewToken(stored, made.secret)


async def _change(acl: AclContext, known: AclToken, wanted: WantedToken) -> NewToken:
    _check(_problems(wanted) + _update_problems(wanted, known))
    changed = _filled_in(acl, known, wanted)
    command = ChangeAclToken(now_ns=acl.context.now_ns(), token=changed)
    stored = (await acl.context.propose(command)).result
    assert isinstance(stored, AclToken)
    return NewToken(stored, secret_of(acl, stored))


async def delete_tokens(acl: AclContext, accessor_ids: Sequence[str]) -> int:
    """Raises InvalidInputError, and deletes none, where one does not exist."""
    command = DeleteAclTokens(now_ns=acl.context.now_ns(), accessor_ids=list(accessor_ids))
    return (await acl.context.propose(command)).index


def secret_of(acl: AclContext, token: AclToken) -> str:
    """Returns the token's secret in plain, only for an answer to a caller who may see it."""
    return acl.unsealed(token.sealed_for, token.secret).decode()


async def sealed_token(acl: AclContext, token: AclToken, chosen_secret: str = "") -> NewToken:
    """Returns the token with ids, hash and sealed secret, as it may be proposed."""
    secret = chosen_secret or acl.context.ids.new()
    token = replace(
        token,
        accessor_id=token.accessor_id or acl.context.ids.new(),
        secret_hash=secret_hash(secret),
        digest=_digest(token),
    )
    sealed = await acl.sealed(token.sealed_for, secret.encode())
    return NewToken(replace(token, secret=sealed), secret)


def shown_roles(snapshot: Snapshot, token: AclToken) -> list[RoleLink] | None:
    """Returns the token's roles that still exist, under their names of now."""
    if token.roles is None:
        return None
    found = [snapshot.acl_roles.get(link.id) for link in token.roles]
    return [RoleLink(role.id, role.name) for role in found if role is not None]


# -- rules -------------------------------------------------------------------------------------


def _filled_in(acl: AclContext, token: AclToken, wanted: WantedToken) -> AclToken:
    filled = replace(
        token,
        name=wanted.name,
        type=wanted.type,
        policies=wanted.policies,
        roles=_existing_roles(acl, wanted.roles) or None,
    )
    if filled.roles and filled.policies is None:
        filled.policies = []
    filled.digest = _digest(filled)
    return filled


def _existing_roles(acl: AclContext, wanted: Sequence[RoleLink]) -> list[RoleLink]:
    """Returns each role once. Raises InvalidInputError for one that does not exist."""
    found: dict[str, RoleLink] = {}
    with acl.context.snapshot() as snapshot:
        for link in wanted:
            roles = snapshot.acl_roles
            role = roles.get(link.id) if link.id else roles.of_name(link.name)
            if role is None:
                raise InvalidInputError(f"cannot find role {link.id or link.name}")
            found[role.id] = RoleLink(role.id, role.name)
    return list(found.values())


def _problems(wanted: WantedToken) -> list[str]:
    problems = []
    if len(wanted.name) > MAX_NAME_LENGTH:
        problems.append("token name too long")
    links = bool(wanted.policies) or bool(wanted.roles)
    if wanted.type == TokenType.CLIENT:
        if not links:
            problems.append("client token missing policies or roles")
    elif wanted.type != TokenType.MANAGEMENT:
        problems.append("token type must be client or management")
    elif links:
        problems.append("management token cannot be associated with policies or roles")
    if max(len(wanted.policies or ()), len(wanted.roles)) > MAX_LINKS:
        problems.append(f"a token has at most {MAX_LINKS} policies and {MAX_LINKS} roles")
    return problems


def _expiration_problems(
    wanted: WantedToken, now_ns: int, expires_ns: int, limits: AclSettings
) -> list[str]:
    problems = []
    if wanted.expiration_ttl_ns < 0:
        ttl = to_text(wanted.expiration_ttl_ns)
        problems.append(f"token expiration TTL '{ttl}' should not be negative")
    if not expires_ns:
        return problems
    left_ns = expires_ns - now_ns
    if left_ns < 0:
        problems.append("expiration time cannot be before create time")
    shortest = limits.token_min_expiration_ttl_ns
    longest = min(limits.token_max_expiration_ttl_ns, MOST - now_ns)
    if left_ns > longest:
        problems.append(
            f"expiration time cannot be more than {to_text(longest)} in the future "
            f"(was {to_text(left_ns)})"
        )
    if left_ns < shortest:
        problems.append(
            f"expiration time cannot be less than {to_text(shortest)} in the future "
            f"(was {to_text(left_ns)})"
        )
    return problems


def _update_problems(wanted: WantedToken, known: AclToken) -> list[str]:
    """A request that names no expiration keeps it."""
    problems = []
    if wanted.is_global != known.is_global:
        problems.append("cannot toggle global mode")
    if wanted.expiration_ttl_ns or wanted.expiration_time_ns:
        if wanted.expiration_ttl_ns != known.expiration_ttl_ns:
            problems.append("cannot update expiration TTL")
        if wanted.expiration_time_ns != known.expiration_time_ns:
            problems.append("cannot update expiration time")
    return problems


def _check(problems: Sequence[str]) -> None:
    if problems:
        raise InvalidInputError(f"token 0 invalid: {multiple_errors(problems)}")


def _digest(token: AclToken) -> str:
    return contents_digest(
        (
            token.name,
            token.type,
            *(token.policies or ()),
            "global" if token.is_global else "local",
            *(link.id for link in token.roles or ()),
        )
    )
