"""Stores and deletes binding rules."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import InvalidInputError
from orchgit.model.acl import AclBindingRule, BindType, contents_digest
from orchgit.replication.commands.acl_logins import DeleteAclBindingRules, PutAclBindingRule
from orchgit.services.acl.bindings import selector_problem
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.rules import check, description_problems

MAX_BIND_NAME_LENGTH = 1024


async def put_binding_rule(acl: AclContext, rule: AclBindingRule) -> AclBindingRule:
    """Creates a rule, or changes the one of its id.

    A change that names no auth method, bind type or bind name keeps those of the stored rule.
    """
    if rule.id:
        rule = _merged(acl, rule)
    check("binding rule 0", _problems(rule))
    with acl.context.snapshot() as snapshot:
        if snapshot.acl_auth_methods.get(rule.auth_method) is None:
            raise InvalidInputError(f"ACL auth method {rule.auth_method} not found")
    stored = replace(rule, id=rule.id or acl.context.ids.new())
    stored.digest = contents_digest(
        (
            *(stored.id, stored.description, stored.auth_method),
            *(stored.selector, stored.bind_type, stored.bind_name),
        )
    )
    command = PutAclBindingRule(now_ns=acl.context.now_ns(), rule=stored)
    result = (await acl.context.propose(command)).result
    assert isinstance(result, AclBindingRule)
    return result


async def delete_binding_rule(acl: AclContext, rule_id: str) -> int:
    """Raises RefusedError for an unknown rule."""
    command = DeleteAclBindingRules(now_ns=acl.context.now_ns(), rule_ids=[rule_id])
    return (await acl.context.propose(command)).index


def _merged(acl: AclContext, rule: AclBindingRule) -> AclBindingRule:
    with acl.context.snapshot() as snapshot:
        known = snapshot.acl_binding_rules.get(rule.id)
    if known is None:
        raise InvalidInputError(f"cannot find binding rule {rule.id}")
    if rule.auth_method and rule.auth_method != known.auth_method:
        raise InvalidInputError(
            "cannot update auth method for binding rule, create a new rule instead"
        )
    return replace(
        rule,
        auth_method=known.auth_method,
        bind_type=rule.bind_type or known.bind_type,
        bind_name=rule.bind_name or known.bind_name,
    )


def _problems(rule: AclBindingRule) -> list[str]:
    problems = [] if rule.auth_method else ["auth method is missing"]
    if not rule.bind_type:
        problems.append("bind type is missing")
    elif rule.bind_type == BindType.MANAGEMENT:
        if rule.bind_name:
            problems.append("bind name should be empty")
    elif rule.bind_type in (BindType.POLICY, BindType.ROLE):
        if not rule.bind_name:
            problems.append("bind name is missing")
    else:
        problems.append(f'unsupported bind type: "{rule.bind_type}"')
    if len(rule.bind_name) > MAX_BIND_NAME_LENGTH:
        problems.append(f"bind name longer than {MAX_BIND_NAME_LENGTH}")
    if (mistake := selector_problem(rule.selector)) is not None:
        problems.append(f"selector is invalid: {mistake}")
    return problems + description_problems(rule.description)
