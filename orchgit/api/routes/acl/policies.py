"""Policies: list, read, write, delete."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.acl.rules import PolicyError, PolicyRules, parse_rules
from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.shapes import go_json
from orchgit.api.shapes.acl import policy_stub, shown_policy
from orchgit.errors import InvalidInputError
from orchgit.model.acl import AclPolicy, JobAcl
from orchgit.services.acl.policies import delete_policy, put_policy
from orchgit.state.snapshot import Snapshot

_TABLES = ("acl_policies",)
_JOB_ACL = go_json.fields_of(JobAcl, "structs.JobACL")
_POLICY = go_json.Fields(
    "structs.ACLPolicy",
    {
        "Name": go_json.text,
        "Description": go_json.text,
        "Rules": go_json.text,
        "JobACL": go_json.struct(_JOB_ACL),
    },
)


async def list_policies(call: ApiCall) -> Response:
    """A caller without management rights sees those that its token has."""
    prefix = call.query.get("prefix", "")

    def read(snapshot: Snapshot) -> Any:
        sees_all, own = call.rights.is_management, call.access.caller.policies
        found = snapshot.acl_policies.all(prefix)
        return [policy_stub(each) for each in found if sees_all or each.name in own]

    return await answer_list(call, _TABLES, read)


async def read_policy(call: ApiCall) -> Response:
    name = _name(call)
    return await answer_object(
        call,
        _TABLES,
        lambda snapshot: snapshot.acl_policies.get(name),
        "ACL policy not found",
        lambda policy: shown_policy(policy, _rules(policy)),
        key=name,
    )


def _rules(policy: AclPolicy) -> PolicyRules | None:
    try:
        return parse_rules(policy.rules)
    except PolicyError:
        return None


async def write_policy(call: ApiCall) -> Response:
    name = _name(call)
    body = go_json.decode_body(await call.body(), _POLICY)
    if body.get("Name", "") != name:
        raise InvalidInputError("ACL policy name does not match request path")
    job = body.get("JobACL")
    policy = AclPolicy(
        name=name,
        description=body.get("Description", ""),
        rules=body.get("Rules", ""),
        job_acl=go_json.made(JobAcl, job) if job is not None else None,
    )
    return call.empty(index=await put_policy(call.services.acl, policy))


async def remove_policy(call: ApiCall) -> Response:
    return call.empty(index=await delete_policy(call.services.acl, _name(call)))


def _name(call: ApiCall) -> str:
    if not call.path["name"]:
        raise InvalidInputError("Missing Policy Name")
    return call.path["name"]


ENDPOINTS = [
    acl_endpoint("/v1/acl/policies", get=list_policies),
    acl_endpoint(
        "/v1/acl/policy/{name:path}", get=read_policy, put=write_policy, delete=remove_policy
    ),
]
