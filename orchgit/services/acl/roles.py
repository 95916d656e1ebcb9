"""Stores and deletes roles."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import InvalidInputError
from orchgit.model.acl import AclRole, PolicyLink, contents_digest
from orchgit.replication.commands.acl import DeleteAclRoles, PutAclRole
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.rules import check, description_problems, name_problems
from orchgit.state.snapshot import Snapshot

MAX_POLICIES = 1024


async def put_role(acl: AclContext, role: AclRole) -> AclRole:
    """Creates a role, or replaces the one of its id; each policy counts once.

    Raises InvalidInputError for an unknown id or policy, and where another role has the name.
    """
    problems = name_problems(role.name) + description_problems(role.description)
    if not role.policies:
        problems.append("at least one policy should be specified")
    if len(role.policies) > MAX_POLICIES:
        problems.append(f"a role has at most {MAX_POLICIES} policies")
    check("role 0", problems)
    names = list(dict.fromkeys(link.name for link in role.policies))
    with acl.context.snapshot() as snapshot:
        if role.id and snapshot.acl_roles.get(role.id) is None:
            raise InvalidInputError(f"cannot find role {role.id}")
        for name in names:
            if snapshot.acl_policies.get(name) is None:
                raise InvalidInputError(f"cannot find policy {name}")
    stored = replace(
        role,
        id=role.id or acl.context.ids.new(),
        policies=[PolicyLink(name) for name in names],
        digest=contents_digest((role.name, role.description, *names)),
    )
    command = PutAclRole(now_ns=acl.context.now_ns(), role=stored)
    result = (await acl.context.propose(command)).result
    assert isinstance(result, AclRole)
    return result


async def delete_role(acl: AclContext, role_id: str) -> int:
    """Raises RefusedError for an unknown role. Tokens that have the role lose its rights."""
    command = DeleteAclRoles(now_ns=acl.context.now_ns(), role_ids=[role_id])
    return (await acl.context.propose(command)).index


def with_known_policies(snapshot: Snapshot, role: AclRole) -> AclRole:
    """Returns the role with those of its policies that still exist."""
    known = [each for each in role.policies if snapshot.acl_policies.get(each.name) is not None]
    return replace(role, policies=known)
