"""Reads a policy's text: HCL1 or JSON becomes `PolicyRules`, or one mistake in Nomad's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from orchgit.acl import capabilities as named
from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote
from orchgit.hcl1.errors import Hcl1Error
from orchgit.hcl1.parse import parse
from orchgit.hcl1.tree import Hcl1Body, Hcl1Item, ListValue, Literal, Position, Value, bodies_of
from orchgit.model.base import Model

MAX_POLICY_BYTES = 256 * 1024
_NAME = re.compile(r"[a-zA-Z0-9*-]{1,128}\Z")
_POOL_NAME = re.compile(r"[a-zA-Z0-9*_-]{1,128}\Z")
_COARSE = ("node", "agent", "operator", "quota", "plugin", "sentinel")
_LABELLED = ("namespace", "node_pool", "host_volume")
_ACCESS = (named.DENY, named.READ, named.WRITE)
_PLUGIN_ACCESS = (named.DENY, named.READ, named.LIST, named.WRITE)


class PolicyError(InvalidInputError):
    """The text of a policy cannot be used. The message is Nomad's."""


class VariablePath(Model):
    """The capabilities of the variables whose paths match `path_spec`, which may have `*`."""

    path_spec: str
    capabilities: list[str] | None = None


class VariableRules(Model):
    paths: list[VariablePath] = []


class GitopsRule(Model):
    policy: str = ""
    capabilities: list[str] | None = None


class NamespaceRule(Model):
    """Grants in the namespaces that match `name`. `capabilities` include what the coarse policy
    and the gitops rule stand for."""

    name: str
    policy: str = ""
    capabilities: list[str] | None = None
    variables: VariableRules | None = None
    gitops: GitopsRule | msgspec.UnsetType = msgspec.UNSET


class NamedRule(Model):
    """Grants for the node pools, or the host volumes, that match `name`."""

    name: str
    policy: str = ""
    capabilities: list[str] | None = None


class CoarseRule(Model):
    policy: str = ""


class OperatorRule(Model):
    policy: str = ""
    capabilities: list[str] | None = None


class PolicyRules(Model):
    """The rules of one policy, in the shape of Nomad's `RulesJSON`."""

    namespaces: list[NamespaceRule] | None = None
    node_pools: list[NamedRule] | None = None
    host_volumes: list[NamedRule] | None = None
    agent: CoarseRule | None = None
    node: CoarseRule | None = None
    operator: OperatorRule | None = None
    quota: CoarseRule | None = None
    plugin: CoarseRule | None = None
    sentinel: CoarseRule | None = None
    raw: str = ""
    extra_keys_hcl: list[str] | None = msgspec.field(default=None, name="ExtraKeysHCL")


def parse_rules(text: str) -> PolicyRules:
    """Returns the rules of a policy's text; the empty text has none. Raises PolicyError."""
    if len(text) > MAX_POLICY_BYTES:
        raise PolicyError(f"cannot take the rules: more than {MAX_POLICY_BYTES} bytes")
    if not text:
        return PolicyRules()
    try:
        body = parse(text, "policy")
    except Hcl1Error as error:
        raise _unreadable(error.problems[0].without_file) from error
    rules = PolicyRules(raw=text)
    rules.namespaces = [_namespace(*each) for each in _labelled(body, "namespace")] or None
    rules.node_pools = [_named(*each) for each in _labelled(body, "node_pool")] or None
    rules.host_volumes = [_named(*each) for each in _labelled(body, "host_volume")] or None
    rules.agent, rules.node = _coarse(body, "agent"), _coarse(body, "node")
    rules.quota, rules.plugin = _coarse(body, "quota"), _coarse(body, "plugin")
    rules.sentinel = _coarse(body, "sentinel")
    if (operator := _only(body, "operator")) is not None:
        rules.operator = OperatorRule(_text(operator, "policy"), _texts(operator, "capabilities"))
    _check(rules, _unused(body))
    return rules


# -- reading -----------------------------------------------------------------------------------


def _unreadable(reason: str) -> PolicyError:
    return PolicyError(f"Failed to parse ACL Policy: {reason}")


def _mistake(position: Position, reason: str) -> PolicyError:
    return _unreadable(f"At {position.line}:{position.column}: {reason}")


def _labelled(body: Hcl1Body, name: str) -> list[tuple[str, Hcl1Body]]:
    for item in body.named(name):
        if isinstance(item.value, Literal):
            raise _mistake(item.value.position, "unknown slice type: *ast.LiteralType")
        if isinstance(item.value, ListValue) and (inner := _listed_twice(item.value)):
            return [("", each) for each in inner]
    return [
        (each.label.text if each.label is not None else "", each.body)
        for each in body.labelled(name)
    ]


def _listed_twice(value: ListValue) -> list[Hcl1Body]:
    """Returns the objects of `[{"label": [{...}]}]`, in which Nomad finds no label."""
    return [
        inner
        for body in value.items
        if isinstance(body, Hcl1Body)
        for item in body.items
        if isinstance(item.value, ListValue)
        for inner in item.value.items
        if isinstance(inner, Hcl1Body)
    ]


def _only(body: Hcl1Body, name: str) -> Hcl1Body | None:
    """Returns the block of that name; a second one is a mistake that `_unused` names."""
    for item in body.named(name):
        if isinstance(item.value, Literal):
            raise _mistake(
                item.value.position,
                f"root.{name}: not an object type for struct (*ast.LiteralType)",
            )
    return next(iter(body.blocks(name)), None)


def _coarse(body: Hcl1Body, name: str) -> CoarseRule | None:
    found = _only(body, name)
    return None if found is None else CoarseRule(_text(found, "policy"))


def _namespace(name: str, body: Hcl1Body) -> NamespaceRule:
    rule = NamespaceRule(name, _text(body, "policy"), _texts(body, "capabilities"))
    if (variables := _last_block(body, "variables")) is not None:
        rule.variables = VariableRules(
            [
                VariablePath(path, _texts(inner, "capabilities"))
                for path, inner in _labelled(variables, "path")
            ]
        )
    if (gitops := _last_block(body, "gitops")) is not None:
        rule.gitops = GitopsRule(_text(gitops, "policy"), _texts(gitops, "capabilities"))
    return rule


def _named(name: str, body: Hcl1Body) -> NamedRule:
    return NamedRule(name, _text(body, "policy"), _texts(body, "capabilities"))


def _last_block(body: Hcl1Body, name: str) -> Hcl1Body | None:
    found = [inner for item in body.named(name) for inner in bodies_of(item, 1)]
    return found[-1] if found else None


def _last(body: Hcl1Body, name: str) -> Hcl1Item | None:
    found = body.named(name)
    return found[-1] if found else None


def _text(body: Hcl1Body, name: str) -> str:
    item = _last(body, name)
    if item is None:
        return ""
    if not isinstance(item.value, Literal):
        raise _mistake(item.position, f"{name}: unknown type for string {_go_type(item.value)}")
    return item.value.text


def _texts(body: Hcl1Body, name: str) -> list[str] | None:
    item = _last(body, name)
    if item is None:
        return None
    if not isinstance(item.value, ListValue):
        raise _mistake(item.value.position, f"unknown slice type: {_go_type(item.value)}")
    texts = []
    for each in item.value.items:
        if not isinstance(each, Literal):
            raise _mistake(each.position, f"{name}: unknown type for string {_go_type(each)}")
        texts.append(each.text)
    return texts


def _go_type(value: Value) -> str:
    if isinstance(value, Literal):
        return "*ast.LiteralType"
    return "*ast.ListType" if isinstance(value, ListValue) else "*ast.ObjectType"


def _unused(body: Hcl1Body) -> list[str]:
    """Returns the top-level names that mean nothing, and those of blocks that may stand only
    once."""
    unknown = [item.name for item in body.items if item.name not in (*_COARSE, *_LABELLED)]
    twice = [name for name in _COARSE if len(body.named(name)) > 1]
    return list(dict.fromkeys((*unknown, *twice)))


# -- checking ----------------------------------------------------------------------------------


def _check(rules: PolicyRules, unused: Sequence[str]) -> None:
    """Raises PolicyError for the first mistake; completes the capabilities."""
    parts = (rules.namespaces, rules.node_pools, rules.host_volumes)
    coarse = (rules.agent, rules.node, rules.quota, rules.plugin, rules.sentinel, rules.operator)
    if not any(parts) and not any(each is not None for each in coarse):
        raise PolicyError(f"Invalid policy: {rules.raw}")
    if unused:
        raise PolicyError(f"Invalid or duplicate policy keys: {', '.join(unused)}")
    for namespace in rules.namespaces or ():
        _complete_namespace(namespace)
    for pool in rules.node_pools or ():
        _complete_node_pool(pool)
    for volume in rules.host_volumes or ():
        _complete_host_volume(volume)
    _check_coarse("agent", rules.agent, _ACCESS)
    _check_coarse("node", rules.node, _ACCESS)
    if rules.operator is not None:
        _complete_operator(rules.operator)
    _check_coarse("quota", rules.quota, _ACCESS)
    _check_coarse("plugin", rules.plugin, _PLUGIN_ACCESS)


def _complete_namespace(rule: NamespaceRule) -> None:
    if not _NAME.match(rule.name):
        raise PolicyError(f"Invalid namespace name: {_go_namespace(rule)}")
    if rule.policy and rule.policy not in named.NAMESPACE_POLICIES:
        raise PolicyError(f"Invalid namespace policy: {_go_namespace(rule)}")
    for each in rule.capabilities or ():
        if each not in named.NAMESPACE_CAPABILITIES:
            raise PolicyError(f"Invalid namespace capability '{each}': {_go_namespace(rule)}")
    granted = [*(rule.capabilities or ()), *named.NAMESPACE_POLICIES.get(rule.policy, ())]
    if rule.gitops is not msgspec.UNSET:
        granted += _gitops_capabilities(rule.name, rule.gitops)
    if granted:
        rule.capabilities = named.with_implied(granted)
    if rule.variables is not None:
        _complete_variables(rule.name, rule.variables)


def _gitops_capabilities(namespace: str, rule: GitopsRule) -> list[str]:
    if rule.policy and rule.policy not in named.GITOPS_POLICIES:
        raise PolicyError(
            f"cannot use gitops policy '{rule.policy}' in namespace {namespace}: it is one of "
            f"{', '.join(named.GITOPS_POLICIES)}"
        )
    for each in rule.capabilities or ():
        if each not in named.GITOPS_CAPABILITIES:
            raise PolicyError(
                f"cannot use gitops capability '{each}' in namespace {namespace}: it is one of "
                f"{', '.join(named.GITOPS_CAPABILITIES)}"
            )
    return [*(rule.capabilities or ()), *named.GITOPS_POLICIES.get(rule.policy, ())]


def _complete_variables(namespace: str, rules: VariableRules) -> None:
    if not rules.paths:
        raise PolicyError(f"Invalid variable policy: no variable paths in namespace {namespace}")
    for rule in rules.paths:
        if not rule.path_spec:
            raise PolicyError(f"Invalid missing variable path in namespace {namespace}")
        for each in rule.capabilities or ():
            if each not in named.VARIABLE_CAPABILITIES:
                raise PolicyError(f"Invalid variable capability '{each}' in namespace {namespace}")
        if rule.capabilities:
            rule.capabilities = named.with_listing(rule.capabilities)


def _complete_node_pool(rule: NamedRule) -> None:
    if not _POOL_NAME.match(rule.name):
        raise PolicyError(f"Invalid node pool name '{rule.name}'")
    if rule.policy and rule.policy not in named.NODE_POOL_POLICIES:
        raise PolicyError(f"Invalid node pool policy '{rule.policy}' for '{rule.name}'")
    for each in rule.capabilities or ():
        if each not in named.NODE_POOL_CAPABILITIES:
            raise PolicyError(f"Invalid node pool capability '{each}' for '{rule.name}'")
    rule.capabilities = _expanded(rule.capabilities, named.NODE_POOL_POLICIES, rule.policy)


def _complete_host_volume(rule: NamedRule) -> None:
    if not _NAME.match(rule.name):
        raise PolicyError(f"Invalid host volume name: {_go_host_volume(rule)}")
    if rule.policy and rule.policy not in named.HOST_VOLUME_POLICIES:
        raise PolicyError(f"Invalid host volume policy: {_go_host_volume(rule)}")
    for each in rule.capabilities or ():
        if each not in named.HOST_VOLUME_CAPABILITIES:
            raise PolicyError(f"Invalid host volume capability '{each}': {_go_host_volume(rule)}")
    rule.capabilities = _expanded(rule.capabilities, named.HOST_VOLUME_POLICIES, rule.policy)


def _complete_operator(rule: OperatorRule) -> None:
    if rule.policy and rule.policy not in named.OPERATOR_POLICIES:
        shown = f"Policy:{quote(rule.policy)}, Capabilities:{_go_texts(rule.capabilities)}"
        raise PolicyError(f"Invalid operator policy: &acl.OperatorPolicy{{{shown}}}")
    for each in rule.capabilities or ():
        if each not in named.OPERATOR_CAPABILITIES:
            raise PolicyError(f"Invalid operator capability '{each}'")
    rule.capabilities = _expanded(rule.capabilities, named.OPERATOR_POLICIES, rule.policy)


def _expanded(
    given: list[str] | None, policies: Mapping[str, Sequence[str]], policy: str
) -> list[str] | None:
    granted = list(dict.fromkeys((*(given or ()), *policies.get(policy, ()))))
    return granted or given


def _check_coarse(name: str, rule: CoarseRule | None, allowed: Sequence[str]) -> None:
    if rule is not None and rule.policy not in allowed:
        shown = f"&acl.{name.title()}Policy{{Policy:{quote(rule.policy)}}}"
        raise PolicyError(f"Invalid {name} policy: {shown}")


# -- Nomad's words: it prints its own structs --------------------------------------------------


def _go_namespace(rule: NamespaceRule) -> str:
    variables = "(nil)" if rule.variables is None else "(...)"
    return (
        f"&acl.NamespacePolicy{{Name:{quote(rule.name)}, Policy:{quote(rule.policy)}, "
        f"Capabilities:{_go_texts(rule.capabilities)}, "
        f"Variables:(*acl.VariablesPolicy){variables}}}"
    )


def _go_host_volume(rule: NamedRule) -> str:
    return (
        f"&acl.HostVolumePolicy{{Name:{quote(rule.name)}, Policy:{quote(rule.policy)}, "
        f"Capabilities:{_go_texts(rule.capabilities)}}}"
    )


def _go_texts(texts: Iterable[str] | None) -> str:
    if texts is None:
        return "[]string(nil)"
    return f"[]string{{{', '.join(map(quote, texts))}}}"
