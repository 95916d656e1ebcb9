"""Policy texts become rules, or the mistake that Nomad names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchgit.acl.rules import MAX_POLICY_BYTES, PolicyError, parse_rules

GOLDEN = Path(__file__).parents[2] / "golden" / "api" / "acl-objects" / "policies.json"
STEPS = json.loads(GOLDEN.read_text())["steps"]
_BAD_RULES = "failed to parse rules: "


def recorded_texts() -> list[tuple[str, str | None]]:
    """Rules, and the mistake that Nomad found in them."""
    found: list[tuple[str, str | None]] = []
    for step in STEPS:
        body, answer = step["request"].get("body"), step["response"]
        if not isinstance(body, dict) or "Rules" not in body:
            continue
        if answer["status"] == 200:
            found.append((body["Rules"], None))
        elif _BAD_RULES in answer["text"]:
            found.append((body["Rules"], answer["text"].split(_BAD_RULES)[1].removesuffix("\n\n")))
    return found


@pytest.mark.parametrize(("text", "mistake"), recorded_texts())
def test_policy_text_is_taken_or_refused_in_nomads_words(text: str, mistake: str | None) -> None:
    if mistake is None:
        parse_rules(text)
        return
    with pytest.raises(PolicyError) as refused:
        parse_rules(text)
    assert str(refused.value) == mistake


def recorded_rules() -> list[dict[str, Any]]:
    answers = (step["response"].get("json") for step in STEPS)
    return [each for each in answers if isinstance(each, dict) and "RulesJSON" in each]


@pytest.mark.parametrize("policy", recorded_rules(), ids=lambda policy: policy["Name"])
def test_rules_are_shown_as_nomad_shows_them(policy: dict[str, Any]) -> None:
    assert json.loads(msgspec.json.encode(parse_rules(policy["Rules"]))) == policy["RulesJSON"]


def test_gitops_rule_of_a_namespace_becomes_its_capabilities() -> None:
    rules = parse_rules(
        'namespace "a" { gitops { policy = "read" capabilities = ["gitops-approve"] } }'
    )
    assert rules.namespaces is not None
    assert rules.namespaces[0].capabilities == ["gitops-approve", "gitops-read"]


@pytest.mark.parametrize(
    "gitops", ['policy = "deny"', 'capabilities = ["read-job"]', 'capabilities = ["x"]']
)
def test_gitops_rule_with_other_capabilities_is_refused(gitops: str) -> None:
    with pytest.raises(PolicyError, match="cannot use gitops"):
        parse_rules(f'namespace "a" {{ gitops {{ {gitops} }} }}')


def test_several_gitops_blocks_of_a_namespace_count_together() -> None:
    rules = parse_rules(
        'namespace "a" { gitops { policy = "write" } gitops { policy = "read" } '
        'gitops { capabilities = ["git-force"] } }'
    )
    assert rules.namespaces is not None
    assert rules.namespaces[0].capabilities is not None
    assert {"git-force", "gitops-sync"} <= set(rules.namespaces[0].capabilities)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"node": [{"policy": "read"}, {"policy": "deny"}]}', "node"),
        ('{"operator": [{"policy": "write"}, {"capabilities": ["deny"]}]}', "operator"),
        ('NODE { policy = "deny" } node { policy = "read" }', "node"),
        ('namespace "a" "b" { policy = "deny" }', "b"),
        ('operator "x" { capabilities = ["deny"] } node { policy = "read" }', "x"),
        ('namespace "a" { variables { path "x" "y" { capabilities = ["deny"] } } }', "y"),
        ('namespace "a" { variables "x" { path "y" { capabilities = ["deny"] } } }', "x"),
    ],
)
def test_denial_that_would_be_lost_is_refused(text: str, keys: str) -> None:
    with pytest.raises(PolicyError, match=f"^Invalid or duplicate policy keys: {keys}$"):
        parse_rules(text)


def test_text_above_the_limit_is_refused() -> None:
    with pytest.raises(PolicyError, match="cannot take the rules"):
        parse_rules("#" * (MAX_POLICY_BYTES + 1))
