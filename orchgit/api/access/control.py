"""Asks the access table before a handler runs, and words the refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from orchgit.acl.rights import Rights
from orchgit.api.access.caller import OPEN, BadTokenReason, Caller
from orchgit.api.access.requirements import (
    BadTokenForm,
    Objects,
    Question,
    RefusalForm,
    RequestNames,
    Rule,
)
from orchgit.api.access.table import TABLE, AccessTable
from orchgit.errors import InvariantError, OrchgitError

DENIED = "Permission denied"
_MOST_KEPT = 1000
"""Decisions of one caller that are kept."""
_NO_IDENTITY = "ACL token not found or invalid workload identity"


class Tokens(Protocol):
    """Finds out whose a secret is."""

    def caller(self, secret: str) -> Caller | BadTokenReason:
        """Returns the caller with this secret, "" is the anonymous one; or why it is nobody's."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer in place of the handler's."""

    status: int
    text: str


@dataclass(slots=True)
class Access:
    """What was decided about one request: the caller, and what of the answer it may see.

    Never changed; not frozen, since every request makes one and a frozen one costs twice.
    """

    caller: Caller
    rule: Rule | None = None

    @property
    def rights(self) -> Rights:
        return self.caller.rights

    def sees(self, namespace: str) -> bool:
        """Returns whether objects of the namespace may be in the answer."""
        return self.rule is None or self.rule.requirement.sees(self.rights, namespace)


OPEN_ACCESS = Access(OPEN)
"""Of every request while access control is off."""


class AccessRefusedError(OrchgitError):
    """The request is refused; `refusal` is the answer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


class AccessControl:
    """Decides about requests by the table, while access control is on."""

    def __init__(self, tokens: Tokens, objects: Objects, table: AccessTable = TABLE) -> None:
        self._tokens = tokens
        self._objects = objects
        self._table = table

    def rule(self, path: str, method: str) -> Rule:
        """Returns the entry of an endpoint. `create_app` has made sure that there is one."""
        rule = self._table.rule(path, method)
        if rule is None:
            raise InvariantError(f"cannot serve {method} {path}: the access table has no entry")
        return rule

    def has_rule(self, path: str, method: str) -> bool:
        return self._table.rule(path, method) is not None

    def caller(self, rule: Rule, secret: str) -> Caller:
        """Returns who sends the request. Raises AccessRefusedError for a bad token, unless the
        rule looks at none: then its sender is anonymous."""
        found = self._tokens.caller(secret)
        if isinstance(found, Caller):
            return found
        if not rule.is_open:
            raise AccessRefusedError(bad_token_answer(rule.bad_token, found))
        anonymous = self._tokens.caller("")
        if isinstance(anonymous, Caller):
            return anonymous
        raise InvariantError("cannot tell who sends the request: there is no anonymous identity")

    def allowed_before(self, rule: Rule, secret: str, namespace: str) -> Access | None:
        """Returns the access that was decided before for such a request of the same caller, None if
        there is none, or the rule depends on more than the namespace. Raises AccessRefusedError for
        a bad token."""
        if not rule.is_by_namespace:
            return None
        # A caller is found anew whenever its rights may have changed, and this with it.
        access = self.caller(rule, secret).allowed.get((id(rule), namespace))
        return access if access is not None and access.rule is rule else None

    def decide(self, rule: Rule, secret: str, request: RequestNames) -> Access:
        """Returns the access of a request. Raises AccessRefusedError."""
        caller = self.caller(rule, secret)
        question = Question(
            caller.rights, request, self._objects, caller.policies, caller.accessor_id
        )
        if not rule.requirement.allows(question):
            raise AccessRefusedError(refused_answer(rule.refused, request.path))
        access = Access(caller, rule)
        if rule.is_by_namespace:
            if len(caller.allowed) >= _MOST_KEPT:
                caller.allowed.clear()
            caller.allowed[id(rule), request.namespace] = access
        return access


def bad_token_answer(way: BadTokenForm, reason: BadTokenReason) -> Refusal:
    """Returns how a token is refused that is nobody's."""
    text = reason.text
    if reason.is_unknown and way in (BadTokenForm.TOLD, BadTokenForm.RPC, BadTokenForm.IDENTITY):
        return Refusal(403, DENIED)
    match way:
        case BadTokenForm.DENIED:
            return Refusal(403, DENIED)
        case BadTokenForm.TOLD:
            return Refusal(500, text)
        case BadTokenForm.TOLD_403:
            return Refusal(403, text)
        case BadTokenForm.RPC | BadTokenForm.RPC_500:
            return Refusal(500, f"rpc error: {text}")
        case BadTokenForm.RPC_403:
            return Refusal(403, f"rpc error: {text}")
        case BadTokenForm.RPC_200:
            return Refusal(200, f"rpc error: {text}")
        case BadTokenForm.IDENTITY:
            return Refusal(500, f"{_NO_IDENTITY}: {text}")
        case BadTokenForm.NO_BODY:
            return Refusal(200, "")


def refused_answer(way: RefusalForm, path: Mapping[str, str]) -> Refusal:
    """Returns how a caller is refused that lacks the right."""
    match way:
        case RefusalForm.DENIED:
            return Refusal(403, DENIED)
        case RefusalForm.UNKNOWN_ALLOCATION:
            return Refusal(500, f'Unknown allocation "{path["alloc_id"]}"')
        case RefusalForm.TEXT:
            return Refusal(200, DENIED)
        case RefusalForm.NO_BODY:
            return Refusal(200, "")
