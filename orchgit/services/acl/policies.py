"""Stores and deletes policies."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.acl.rules import PolicyError, parse_rules
from orchgit.model.acl import AclPolicy, JobAcl, contents_digest
from orchgit.replication.commands.acl import DeleteAclPolicies, PutAclPolicies
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.rules import check, description_problems, name_problems


async def put_policy(acl: AclContext, policy: AclPolicy) -> int:
    """Raises InvalidInputError with every problem of the policy."""
    problems = name_problems(policy.name)
    try:
        parse_rules(policy.rules)
    except PolicyError as error:
        problems.append(f"failed to parse rules: {error}")
    problems += description_problems(policy.description)
    if policy.job_acl is not None:
        problems += _job_problems(policy.job_acl)
    check("policy 0", problems)
    job = policy.job_acl
    bound = (job.namespace, job.job_id, job.group, job.task) if job is not None else ()
    digest = contents_digest((policy.name, policy.description, policy.rules, *bound))
    command = PutAclPolicies(now_ns=acl.context.now_ns(), policies=[replace(policy, digest=digest)])
    return (await acl.context.propose(command)).index


async def delete_policy(acl: AclContext, name: str) -> int:
    """A policy that does not exist is no error; tokens and roles keep the names of deleted ones."""
    command = DeleteAclPolicies(now_ns=acl.context.now_ns(), names=[name])
    return (await acl.context.propose(command)).index


def _job_problems(job: JobAcl) -> list[str]:
    problems = []
    if job.job_id and not job.namespace:
        problems.append("namespace must be set to set job ID")
    if job.group and not job.job_id:
        problems.append("job ID must be set to set group")
    if job.task and not job.group:
        problems.append("group must be set to set task")
    return problems
