"""Lets a request through to its handler, or answers it with a refusal."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.acl.rights import ALL_NAMESPACES
from orchgit.api.access.caller import secret_of
from orchgit.api.access.control import (
    DENIED,
    Access,
    AccessControl,
    AccessRefusedError,
    Refusal,
)
from orchgit.api.access.requirements import RequestNames, Rule, RuleBody
from orchgit.api.call import ApiCall
from orchgit.api.errors import text_response
from orchgit.api.shapes import nomad_json
from orchgit.api.shapes.job_body import read_job_body
from orchgit.api.shapes.statuses_body import read_statuses_body
from orchgit.model.base import Model

INTERNAL = "orchgit.internal"
"""The key of a scope that this process made itself, for no client."""


_IN_NAMESPACE = (
    RuleBody.JOB,
    RuleBody.STATUSES,
    RuleBody.VOLUME,
    RuleBody.SOURCE,
    RuleBody.NAMESPACE,
)
"""Whose requests are refused before the body is read where nothing is allowed in any namespace."""


class _Named(Model):
    """What decides about a body. Its keys are read as the handlers' own structs read theirs."""

    name: str = ""
    namespace: str = ""


def admitted_before(call: ApiCall, path: str, control: AccessControl) -> bool:
    """Admits a request of a caller who was allowed the same before, and returns whether it did so.
    Any other is left to `admit`. Raises AccessRefusedError for a bad token."""
    scope = call.request.scope
    rule = control.rule(path, scope["method"])
    if rule.free_without or scope.get(INTERNAL):
        return False
    secret, namespace = secret_of(scope["headers"]), call.namespace
    access = control.allowed_before(rule, secret, namespace)
    if access is None:
        return False

    def decide() -> Access:
        return control.decide(rule, secret, RequestNames(namespace, call.path, call.query))

    call.decide_access_by(decide, access)
    return True


async def admit(call: ApiCall, path: str, control: AccessControl) -> None:
    """Notes in `call` what the request may see, and how to decide again later.

    `path` is that of the endpoint. Raises AccessRefusedError.
    """
    if call.request.scope.get(INTERNAL):
        return
    rule = control.rule(path, call.request.method)
    if rule.free_without and not any(name in call.query for name in rule.free_without):
        return
    secret = secret_of(call.request.scope["headers"])
    names = RequestNames(call.namespace, call.path, call.query)
    if rule.body is not RuleBody.NOTHING:
        caller = control.caller(rule, secret)
        if rule.body in _IN_NAMESPACE and not rule.requirement.sees(caller.rights, ALL_NAMESPACES):
            raise AccessRefusedError(Refusal(403, DENIED))  # before its body is read
        await _read_body(call, rule, names)
    call.decide_access_by(lambda: control.decide(rule, secret, names))


async def _read_body(call: ApiCall, rule: Rule, names: RequestNames) -> None:
    """Adds to `names` what the body names. As for the handlers, the query's namespace wins over the
    body's, but where a request releases a job."""
    if rule.body is RuleBody.JOB:
        names.job = (await read_job_body(call)).job
        names.namespace = names.job.namespace
        return
    if rule.body is RuleBody.STATUSES:
        asked = await read_statuses_body(call)
        names.namespace = names.namespace if asked is None else asked.namespace
        return
    data = await call.body()
    if rule.body is RuleBody.VOLUME:
        tree = nomad_json.get(nomad_json.decode_tree(data), "Volume", {})
        named = nomad_json.convert(tree, _Named)
    elif rule.body is RuleBody.NAMESPACE:
        tree = nomad_json.decode_tree(data)
        names.namespace = nomad_json.get(tree, "Namespace", "") or names.namespace
        return
    elif rule.body is RuleBody.SEARCH:
        tree = nomad_json.decode_tree(data)
        named = _Named(namespace=nomad_json.get(tree, "Namespace", ""))
        names.context = nomad_json.get(tree, "Context", "")
    else:
        named = nomad_json.decode(data, _Named)
    if rule.body is RuleBody.NODE_POOL:
        names.path = {"name": named.name, **names.path}
    elif not call.query.get("namespace") or rule.body is RuleBody.SOURCE:
        names.namespace = named.namespace or "default"


def refusal_response(refusal: Refusal) -> Response:
    """Returns the refusal as an answer."""
    return text_response(refusal.text, refusal.status)
