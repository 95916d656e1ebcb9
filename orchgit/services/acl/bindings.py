"""Which policies and roles a login gets by the binding rules of its auth method."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchgit.errors import InvalidInputError, RefusedError
from orchgit.filters import parse_filter
from orchgit.model.acl import AclBindingRule, BindType, RoleLink
from orchgit.services.acl.claims import MappedClaims
from orchgit.state.snapshot import Snapshot

_PREFIX = "failed to create result paginator: failed to read filter expression: "
_INTERPOLATION = re.compile(r"\$\$\{|\$\{([^{}]*)\}?")
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]*")
_NAMES = {
    BindType.POLICY: re.compile(r"[a-zA-Z0-9-]{1,128}"),
    BindType.ROLE: re.compile(r"[a-zA-Z0-9-]{1,128}"),
}


@dataclass(frozen=True, slots=True)
class Bindings:
    """What a login gives. `management` means everything, whatever else matched."""

    management: bool = False
    policies: list[str] = field(default_factory=list)
    roles: list[RoleLink] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.management or self.policies or self.roles)


def bind(snapshot: Snapshot, rules: Sequence[AclBindingRule], claims: MappedClaims) -> Bindings:
    """Returns what the matching rules give.

    A computed name that no policy or role has is passed over. Raises RefusedError for a name that
    cannot be computed, or that no policy or role may have.
    """
    found = Bindings()
    for rule in rules:
        if not selects(rule.selector, claims):
            continue
        if rule.bind_type == BindType.MANAGEMENT:
            return Bindings(management=True)
        name = _bind_name(rule, claims)
        if rule.bind_type == BindType.POLICY:
            if snapshot.acl_policies.get(name) is not None:
                found.policies.append(name)
        elif (role := snapshot.acl_roles.of_name(name)) is not None:
            found.roles.append(RoleLink(role.id, role.name))
    return found


def selects(selector: str, claims: MappedClaims) -> bool:
    """Returns whether the claims match; "" matches all, a selector with a mistake matches none."""
    if not selector:
        return True
    try:
        return parse_filter(selector)(claims.selectable())
    except InvalidInputError:
        return False


def selector_problem(selector: str) -> str | None:
    """Returns what is wrong with a selector; None for one that can be read."""
    if not selector:
        return None
    try:
        parse_filter(selector)
    except InvalidInputError as error:
        return str(error).removeprefix(_PREFIX)
    return None


def _bind_name(rule: AclBindingRule, claims: MappedClaims) -> str:
    kind = BindType(rule.bind_type)
    try:
        name = interpolated(rule.bind_name, _value_variables(claims))
    except InvalidInputError as error:
        raise RefusedError(f'cannot compute "{kind}" bind name for bind target: {error}') from error
    if not _NAMES[kind].fullmatch(name):
        raise RefusedError(f'computed "{kind}" bind name for bind target is invalid: "{name}"')
    return name


def token_name(name_format: str, method_type: str, method_name: str, claims: MappedClaims) -> str:
    """Returns the name of the token that a login makes. Raises InvalidInputError."""
    variables = {
        **_value_variables(claims),
        "auth_method_type": method_type,
        "auth_method_name": method_name,
    }
    return interpolated(name_format, variables)


def _value_variables(claims: MappedClaims) -> dict[str, str]:
    return {f"value.{name}": value for name, value in claims.values.items()}


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """Replaces each `${name}` by its value; `$${` stands for `${`.

    Raises InvalidInputError for an unknown name, and for an interpolation that does not end.
    """

    def value(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        name = (found[1] or "").strip()
        if not found[0].endswith("}"):
            raise InvalidInputError(f"cannot read {text!r}: an interpolation does not end")
        if not _VARIABLE.fullmatch(name):
            raise InvalidInputError(f"cannot read {text!r}: {name!r} is no name")
        if name not in variables:
            raise InvalidInputError(f"cannot read {text!r}: unknown variable accessed: {name}")
        return variables[name]

    return _INTERPOLATION.sub(value, text)
