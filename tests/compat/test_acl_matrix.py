"""Who may do what, compared with what Nomad answered 144 tokens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from starlette.routing import compile_path

from orchgit.acl.rights import MANAGEMENT, Rights, Workload, compile_rights
from orchgit.acl.rules import parse_rules
from orchgit.api.access.caller import (
    EXPIRED_TOKEN,
    UNKNOWN_TOKEN,
    BadTokenReason,
    Caller,
)
from orchgit.api.access.control import AccessControl, AccessRefusedError
from orchgit.api.access.requirements import ObjectKind, RequestNames, Rule, RuleBody
from orchgit.api.access.table import TABLE
from orchgit.model.acl import TokenType
from orchgit.services.acl.resolve import Identity, IdentityKind
from tests.compat.acl_matrix import BAD_TOKENS, Matrix, MatrixRequest, read_matrices
from tests.compat.acl_matrix_run import MatrixRun
from tests.compat.acl_scenario import NAMESPACES, ROLES, AclScenario, acl_rig

GOLDEN = Path(__file__).parents[1] / "golden" / "api" / "acl-matrix"
MATRICES = {each.file: each for each in read_matrices(GOLDEN)}
MATRIX, STREAMS = MATRICES["matrix.json"], MATRICES["streams.json"]
_LABEL = re.compile(r"\{(run|done|dep|eval|vol|pol)([og]?)\}")
_STATE_DEPENDS = (
    "PUT /v1/client/allocation/{done}/gc",  # by then the allocation was collected
    "PUT /v1/operator/snapshot",  # Nomad refuses by 403 or 500, at random
    "PUT /v1/acl/token/onetime/exchange",  # it always has an unknown secret
    "DELETE /v1/acl/auth-method/nosuch",  # the recorded life of auth methods has 200
)
_OWN_ANSWERS = (
    "PUT /v1/agent/reload",  # a server without a configuration file has nothing to read again
)
_SHARE = 7
"""Over HTTP every request is asked with one token of so many, another one for each request."""
_ALWAYS = ("anonymous", "management", "expired", "ns:*:write+default:deny", "workload-identity")


class RecordedObjects:
    """The labels of the recorded paths tell their namespaces."""

    def namespace_of(self, kind: ObjectKind, object_id: str) -> str | None:
        found = _LABEL.fullmatch(object_id)
        if found is None:
            return None
        return next(name for name, suffix in NAMESPACES.items() if suffix == found[2])

    def driver_of(self, alloc_id: str, task: str) -> str:
        return "raw_exec"


class RecordedTokens:
    """The tokens of a matrix, by their names; what is no token has the recorded reason."""

    def __init__(self, matrix: Matrix) -> None:
        self._callers: dict[str, Caller | BadTokenReason] = {
            "bogus-uuid": UNKNOWN_TOKEN,
            "bogus-text": BadTokenReason("failed to parse signed token"),
            "bogus-jwt": BadTokenReason("missing key ID header"),
            "expired": EXPIRED_TOKEN,
            "management": Caller(MANAGEMENT),
            "workload-identity": Caller(compile_rights([], Workload("default", "run", "g", "t"))),
        }
        for token in matrix.tokens:
            if token not in self._callers:
                names = ROLES.get(token, (token,))
                texts = [matrix.policies[each] for each in names if each in matrix.policies]
                rights: Rights = compile_rights([parse_rules(text) for text in texts])
                self._callers[token] = Caller(rights, _identity(names))

    def caller(self, secret: str) -> Caller | BadTokenReason:
        return self._callers[secret or "anonymous"]


def _identity(policies: tuple[str, ...]) -> Identity:
    return Identity(IdentityKind.TOKEN, "", "", TokenType.CLIENT, policies)


PATTERNS = [
    (compile_path(path)[0], path)
    for path in sorted(
        TABLE.paths, key=lambda path: ("{" in path, -len(re.sub(r"\{[^}]*\}", "", path)))
    )
]


def rule_of(request: MatrixRequest) -> tuple[Rule, RequestNames] | None:
    """Returns the rule for a recorded request, and what the request names."""
    method = "WEBSOCKET" if request.method == "WS" else request.method
    query = dict(parse_qsl(request.target.partition("?")[2], keep_blank_values=True))
    for pattern, path in PATTERNS:
        match = pattern.match(request.path)
        rule = TABLE.rule(path, method) if match is not None else None
        if match is None or rule is None:
            continue
        if rule.free_without and not any(name in query for name in rule.free_without):
            return None
        named = {key: value for key, value in match.groupdict().items() if value is not None}
        if named.get("name") == "{pdef}":
            named["name"] = "ns:default:read"
        if rule.body is RuleBody.NODE_POOL:
            named["name"] = request.body["Name"]
        names = RequestNames(query.get("namespace", "default"), named, query)
        if rule.body is RuleBody.SEARCH:
            names.context = request.body["Context"]
        return rule, names
    return None


def test_table_decides_every_recorded_request_as_nomad_does() -> None:
    control = AccessControl(RecordedTokens(MATRIX), RecordedObjects())
    different, decided = [], 0
    for request in MATRIX.requests:
        found = rule_of(request)
        if found is None or request.is_own or request.name.startswith(_STATE_DEPENDS):
            continue
        for token in MATRIX.tokens:
            decided += 1
            try:
                control.decide(found[0], token, found[1])
                refused = found[0].is_open and token in BAD_TOKENS and request.is_refused(token)
            except AccessRefusedError:
                refused = True
            if token not in BAD_TOKENS and refused != request.is_refused(token):
                different.append(f"{request.name} [{token}]: refused: {refused}")
    assert not different, "\n".join(different[:50])
    assert decided > 0.95 * len(MATRIX.requests) * len(MATRIX.tokens)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, AclScenario]]:
    with acl_rig(tmp_path_factory.mktemp("acl")) as rig:
        yield rig.server.http_address, AclScenario(rig.http, MATRIX)


def test_answers_over_http_refuse_and_filter_as_recorded(
    scenario: tuple[str, AclScenario],
) -> None:
    run = MatrixRun(*scenario)

    async def ask() -> None:
        for place, request in enumerate(MATRIX.requests):
            tokens = {*MATRIX.tokens[place % _SHARE :: _SHARE], *_ALWAYS}
            await run.run(MATRIX.only(request), tokens)

    asyncio.run(ask())
    different = [
        each
        for each in run.differences
        if each.is_about_access and not each.request.startswith((*_STATE_DEPENDS, *_OWN_ANSWERS))
    ]
    assert not different, "\n".join(map(str, different[:50]))


def test_event_streams_tell_what_their_followers_may_read(
    scenario: tuple[str, AclScenario],
) -> None:
    run = MatrixRun(*scenario)

    async def ask() -> None:
        for place, request in enumerate(STREAMS.requests):
            await run.run(STREAMS.only(request), STREAMS.tokens[place % _SHARE :: _SHARE])

    asyncio.run(ask())
    assert not run.differences, "\n".join(map(str, run.differences[:50]))
