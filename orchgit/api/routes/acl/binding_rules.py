"""Binding rules: list, read, write, delete."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.shapes import go_json
from orchgit.api.shapes.acl import binding_rule_stub, shown_binding_rule
from orchgit.errors import InvalidInputError
from orchgit.model.acl import AclBindingRule
from orchgit.services.acl.binding_rules import delete_binding_rule, put_binding_rule
from orchgit.state.snapshot import Snapshot

_TABLES = ("acl_binding_rules",)
_RULE = go_json.Fields(
    "structs.ACLBindingRule",
    {
        "ID": go_json.text,
        "Description": go_json.text,
        "AuthMethod": go_json.text,
        "Selector": go_json.text,
        "BindType": go_json.text,
        "BindName": go_json.text,
    },
)


async def list_binding_rules(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> Any:
        return [binding_rule_stub(each) for each in snapshot.acl_binding_rules.all()]

    return await answer_list(call, _TABLES, read)


async def read_binding_rule(call: ApiCall) -> Response:
    rule_id = _id(call)
    return await answer_object(
        call,
        _TABLES,
        lambda snapshot: snapshot.acl_binding_rules.get(rule_id),
        "ACL binding rule not found",
        shown_binding_rule,
        key=rule_id,
    )


async def write_binding_rule(call: ApiCall) -> Response:
    body = go_json.decode_body(await call.body(), _RULE)
    in_path, rule_id = _id(call) if "id" in call.path else "", body.get("ID", "")
    if in_path and rule_id and in_path != rule_id:
        raise InvalidInputError("ACL binding rule ID does not match request path")
    rule = AclBindingRule(
        id=in_path or rule_id,
        description=body.get("Description", ""),
        auth_method=body.get("AuthMethod", ""),
        selector=body.get("Selector", ""),
        bind_type=body.get("BindType", ""),
        bind_name=body.get("BindName", ""),
    )
    stored = await put_binding_rule(call.services.acl, rule)
    return call.answer(shown_binding_rule(stored), index=stored.modify_index)


async def remove_binding_rule(call: ApiCall) -> Response:
    return call.empty(index=await delete_binding_rule(call.services.acl, _id(call)))


def _id(call: ApiCall) -> str:
    if not call.path["id"]:
        raise InvalidInputError("missing ACL binding rule ID")
    return call.path["id"]


ENDPOINTS = [
    acl_endpoint("/v1/acl/binding-rules", get=list_binding_rules),
    acl_endpoint("/v1/acl/binding-rule", put=write_binding_rule),
    acl_endpoint(
        "/v1/acl/binding-rule/{id:path}",
        get=read_binding_rule,
        put=write_binding_rule,
        delete=remove_binding_rule,
    ),
]
