"""Reads a policy's text: HCL1 or JSON becomes `PolicyRules`, or one mistake in Nomad's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from orchgit.acl import capabilities as named
from orchgit.errors import InvalidInputError, OrchgitError
from orchgit.go_quote import quote
from orchgit.hcl1.errors import Hcl1Error
from orchgit.hcl1.parse import parse
from orchgit.hcl1.tree import Hcl1Body, Hcl1Item, Key, ListValue, Literal, Position, Value
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
    body = _spelled(body, (*_COARSE, *_LABELLED))
    rules = PolicyRules(raw=text)
    rules.namespaces = [_namespace(*each) for each in _labelled(body, "namespace")] or None
    rules.node_pools = [_named(*each) for each in _labelled(body, "node_pool")] or None
    rules.host_volumes = [_named(*each) for each in _labelled(body, "host_volume")] or None
    rules.agent, rules.node = _coarse(body, "agent"), _coarse(body, "node")
    rules.quota, rules.plugin = _coarse(body, "quota"), _coarse(body, "plugin")
    rules.sentinel = _coarse(body, "sentinel")
    if (operator := _only(body, "operator")) is not None:
        found = _named("", operator)
        rules.operator = OperatorRule(found.policy, found.capabilities)
    _check(rules, _unused(body))
    return rules


@lru_cache(maxsize=1024)
def readable_rules(text: str) -> PolicyRules | None:
    """Returns the rules of a policy's text, which nobody may change; None where it cannot be
    read."""
    try:
        return parse_rules(text)
    except OrchgitError:
        return None


# -- reading -----------------------------------------------------------------------------------


def _unreadable(reason: str) -> PolicyError:
    return PolicyError(f"Failed to parse ACL Policy: {reason}")


def _mistake(position: Position, reason: str) -> PolicyError:
    return _unreadable(f"At {position.line}:{position.column}: {reason}")


def _refuse_keys(names: Iterable[str]) -> None:
    """Raises PolicyError for names that mean nothing: what stands below them would be lost."""
    if unused := list(names):
        raise PolicyError(f"Invalid or duplicate policy keys: {', '.join(unused)}")


def _labelled(body: Hcl1Body, name: str) -> list[tuple[str, Hcl1Body]]:
    for item in body.named(name):
        if isinstance(item.value, Literal):
            raise _mistake(item.value.position, "unknown slice type: *ast.LiteralType")
        _refuse_keys(key.text for key in item.keys[2:])
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
        _refuse_keys(key.text for key in item.keys[1:])
    return next(iter(body.blocks(name)), None)


def _coarse(body: Hcl1Body, name: str) -> CoarseRule | None:
    found = _only(body, name)
    return None if found is None else CoarseRule(_policy(_spelled(found, ("policy",))))


def _spelled(body: Hcl1Body, names: Sequence[str]) -> Hcl1Body:
    """Returns the body with its keys written as in `names`: the language ignores the case of
    letters."""
    written = {name.casefold(): name for name in names}

    def spelled(item: Hcl1Item) -> Hcl1Item:
        name = written.get(item.name.casefold(), item.name)
        if name == item.name or len(name) != len(item.name):  # no letter that stands for several
            return item
        return Hcl1Item((Key(name, item.position), *item.keys[1:]), item.value)

    return Hcl1Body(tuple(map(spelled, body.items)), body.position)


def _namespace(name: str, body: Hcl1Body) -> NamespaceRule:
    body = _spelled(body, ("policy", "capabilities", "variables", "gitops"))
    rule = NamespaceRule(name, _policy(body), _capabilities(body))
    if variables := _blocks(body, "variables"):
        rule.variables = VariableRules(
            [
                VariablePath(path, _capabilities(_spelled(inner, ("capabilities",))))
                for block in variables
                for path, inner in _labelled(_spelled(block, ("path",)), "path")
            ]
        )
    if gitops := _blocks(body, "gitops"):
        rule.gitops = _gitops(gitops)
    return rule


def _gitops(blocks: Sequence[Hcl1Body]) -> GitopsRule:
    """Returns what the blocks grant together."""
    rules = [_named("", each) for each in blocks]
    policies = [each.policy for each in rules if each.policy]
    unknown = [each for each in policies if each not in named.GITOPS_POLICIES]
    widest = max(policies, key=(*named.GITOPS_POLICIES, *unknown).index, default="")
    lists = [each.capabilities for each in rules if each.capabilities is not None]
    return GitopsRule(widest, [name for each in lists for name in each] if lists else None)


def _named(name: str, body: Hcl1Body) -> NamedRule:
    body = _spelled(body, ("policy", "capabilities"))
    return NamedRule(name, _policy(body), _capabilities(body))


def _blocks(body: Hcl1Body, name: str) -> list[Hcl1Body]:
    """Returns the objects of that name, which count together."""
    for item in body.named(name):
        if not isinstance(item.value, Hcl1Body | ListValue):
            raise _mistake(
                item.value.position,
                f"{name}: not an object type for struct ({_go_type(item.value)})",
            )
        _refuse_keys(key.text for key in item.keys[1:])
    return list(body.blocks(name))


def _policy(body: Hcl1Body) -> str:
    """Returns the coarse policy. Of several the last one counts; a denial always does."""
    texts = []
    for item in body.named("policy"):
        if not isinstance(item.value, Literal):
            raise _mistake(item.position, f"policy: unknown type for string {_go_type(item.value)}")
        texts.append(item.value.text)
    return named.DENY if named.DENY in texts else next(reversed(texts), "")


def _capabilities(body: Hcl1Body) -> list[str] | None:
    """Returns the capabilities of all lists of the body; None where it has no list."""
    texts: list[str] | None = None
    for item in body.named("capabilities"):
        if not isinstance(item.value, ListValue):
            raise _mistake(item.value.position, f"unknown slice type: {_go_type(item.value)}")
        texts = texts or []
        for each in item.value.items:
            if not isinstance(each, Literal):
                raise _mistake(
                    each.position, f"capabilities: unknown type for string {_go_type(each)}"
                )
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
    twice = [name for name in _COARSE if len(body.blocks(name)) > 1]
    return list(dict.fromkeys((*unknown, *twice)))


# -- checking ----------------------------------------------------------------------------------


def _check(rules: PolicyRules, unused: Sequence[str]) -> None:
    """Raises PolicyError for the first mistake; completes the capabilities."""
    parts = (rules.namespaces, rules.node_pools, rules.host_volumes)
    coarse = (rules.agent, rules.node, rules.quota, rules.plugin, rules.sentinel, rules.operator)
    if not any(parts) and not any(each is not None for each in coarse):
        raise PolicyError(f"Invalid policy: {rules.raw}")
    _refuse_keys(unused)
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
