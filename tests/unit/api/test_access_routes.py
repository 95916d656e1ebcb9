"""Every route of the access table: without a token, with one of another namespace, with an expired
one, and with each right that is enough."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from orchgit.acl.capabilities import NAMESPACE_CAPABILITIES
from orchgit.acl.rights import MANAGEMENT as EVERYTHING
from orchgit.acl.rights import Rights, compile_rights
from orchgit.acl.rules import parse_rules
from orchgit.api.access import requirements as needs
from orchgit.api.access.caller import EXPIRED_TOKEN, UNKNOWN_TOKEN, BadTokenReason, Caller
from orchgit.api.access.control import AccessControl, bad_token_answer, refused_answer
from orchgit.api.access.guard import Guard
from orchgit.api.access.requirements import ObjectKind, Requirement, Rule, RuleBody
from orchgit.api.access.table import TABLE
from orchgit.api.app import TABLES, guarded_paths
from orchgit.api.call import ApiCall
from orchgit.api.context import ApiContext
from orchgit.api.dispatch import Dispatch
from orchgit.api.request_metrics import RequestMetrics
from orchgit.api.routing import Endpoint

LET_IN = "let in"
_METHODS = ("GET", "PUT", "DELETE")
_BODIES: Mapping[RuleBody, Any] = {
    RuleBody.JOB: {"Job": {"ID": "job", "Type": "service", "TaskGroups": []}},
    RuleBody.STATUSES: {"Jobs": [{"ID": "job"}]},
    RuleBody.VOLUME: {"Volume": {"Name": "v"}},
    RuleBody.NODE_POOL: {"Name": "default"},
}
_ELSEWHERE = f"""namespace "elsewhere" {{
  capabilities = {json.dumps(sorted(NAMESPACE_CAPABILITIES - {"deny"}))}
  variables {{ path "*" {{ capabilities = ["read", "write", "list", "destroy"] }} }}
}}"""


@dataclass
class FakeTokens:
    rights: dict[str, Rights] = field(default_factory=dict)

    def caller(self, secret: str) -> Caller | BadTokenReason:
        if secret == "expired":
            return EXPIRED_TOKEN
        found = self.rights.get(secret)
        return UNKNOWN_TOKEN if found is None else Caller(found)


class FakeObjects:
    """Every object is in the namespace default, and every task runs without isolation."""

    def namespace_of(self, kind: ObjectKind, object_id: str) -> str:
        return "default"

    def driver_of(self, alloc_id: str, task: str) -> str:
        return "raw_exec"


@dataclass
class FakeApi:
    access: AccessControl


async def let_in(call: ApiCall) -> Response:
    return Response(LET_IN)


async def let_in_app(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(LET_IN)(scope, receive, send)


class Routes:
    """All routes of the API, with handlers that do nothing."""

    def __init__(self) -> None:
        self.tokens = FakeTokens(
            {
                "": compile_rights([]),
                "elsewhere": compile_rights([parse_rules(_ELSEWHERE)]),
                "management": EVERYTHING,
            }
        )
        access = AccessControl(self.tokens, FakeObjects())
        api = cast(ApiContext, FakeApi(access))
        endpoints = [
            Endpoint(each.path, dict.fromkeys(each.methods, let_in))
            for table in TABLES
            for each in table
        ]
        guard = Guard(let_in_app, api, guarded_paths(endpoints))
        self._app = Dispatch(endpoints, api, RequestMetrics(), guard)

    def serves(self, path: str, method: str) -> bool:
        """Returns whether the row is about an endpoint, or about what lies behind the guard."""
        found = self._app.find(filled(path))
        return found is None or (found[0].path == path and method in found[0].methods)

    def ask(self, path: str, method: str, rule: Rule, secret: str) -> tuple[int, str]:
        sent: list[Message] = []
        body = json.dumps(_BODIES.get(rule.body, {})).encode()

        async def receive() -> Message:
            return {"type": "http.request", "body": body}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"x-nomad-token", secret.encode())] if secret else []
        scope: Scope = {
            "type": "http",
            "method": method,
            "path": filled(path),
            "query_string": "&".join(f"{name}=x" for name in rule.free_without).encode(),
            "headers": headers,
        }
        asyncio.run(self._app(scope, receive, send))
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent).decode()


def filled(path: str) -> str:
    """Returns the path with an id for each parameter; all are the same, so that pools, namespaces
    and variables are those of the policies below."""
    return re.sub(r"\{[^}]*\}", "default", path)


def policies_for(requirement: Requirement) -> list[str]:
    """Returns policies each of which is enough; none: only management is, or nobody; "": nothing is
    needed."""
    match requirement:
        case needs.Anyone() | needs.OwnCheck() | needs.AnyToken() | needs.SearchContext():
            return [""]
        case needs.InNamespace() | needs.OfObject() | needs.RegistersJob():
            return [_capability(each) for each in requirement.capabilities]
        case needs.AllInNamespace():
            return [_capability(*requirement.capabilities)]
        case needs.AnythingInNamespace():
            return [_capability("alloc-exec")]
        case needs.ExecInAllocation():
            return [_capability("alloc-exec", "alloc-node-exec")]
        case needs.Coarse():
            return [f'{requirement.topic} {{ policy = "{requirement.access}" }}']
        case needs.OperatorCapability():
            return [f'operator {{ capabilities = ["{requirement.capability}"] }}']
        case needs.OfVariable():
            path = f'path "*" {{ capabilities = ["{requirement.capability}"] }}'
            return [f'namespace "default" {{ variables {{ {path} }} }}']
        case needs.OfNodePool():
            return [f'node_pool "*" {{ capabilities = ["{requirement.capability}"] }}']
        case needs.OneOf():
            return [each for part in requirement.parts for each in policies_for(part)]
        case needs.EveryOf():
            return [" ".join(policies_for(part)[0] for part in requirement.parts)]
        case needs.NamespacesOrNone() | needs.OfWorkload() | needs.SeenWith():
            return policies_for(requirement.inner)
        case needs.ByQuery():
            return policies_for(requirement.otherwise)
        case needs.ManagementOnly() | needs.Nobody() | needs.SelfOr() | needs.OwnPolicy():
            return []
    raise AssertionError(f"the test knows no policy for {requirement}")


def _capability(*names: str) -> str:
    return f'namespace "default" {{ capabilities = {json.dumps(names)} }}'


ROUTES = Routes()


def routes_of_table() -> Iterator[tuple[str, str, Rule]]:
    for path in TABLE.paths:
        for method in _METHODS:
            rule = TABLE.rule(path, method)
            if rule is not None and "{rest:path}" not in path and ROUTES.serves(path, method):
                yield path, method, rule


@pytest.mark.parametrize(
    ("path", "method", "rule"),
    [pytest.param(*each, id=f"{each[1]} {each[0]}") for each in routes_of_table()],
)
def test_route_lets_in_who_has_the_right_and_nobody_else(
    path: str, method: str, rule: Rule
) -> None:
    enough = policies_for(rule.requirement)
    refusal = refused_answer(rule.refused, {"alloc_id": "default"})
    refused = refusal.status, refusal.text
    for secret in ("", "elsewhere"):
        expected = (200, LET_IN) if "" in enough else refused
        assert ROUTES.ask(path, method, rule, secret) == expected, secret
    bad = bad_token_answer(rule.bad_token, EXPIRED_TOKEN)
    expected = (200, LET_IN) if rule.is_open else (bad.status, bad.text)
    assert ROUTES.ask(path, method, rule, "expired") == expected
    for policy in enough:
        ROUTES.tokens.rights["right"] = compile_rights([parse_rules(policy)])
        assert ROUTES.ask(path, method, rule, "right") == (200, LET_IN), policy
    if not isinstance(rule.requirement, needs.Nobody):
        assert ROUTES.ask(path, method, rule, "management") == (200, LET_IN)


def test_token_is_refused_that_nobody_has() -> None:
    rule = TABLE.rule("/v1/jobs", "GET")
    assert rule is not None
    assert ROUTES.ask("/v1/jobs", "GET", rule, "unknown") == (403, "Permission denied")
