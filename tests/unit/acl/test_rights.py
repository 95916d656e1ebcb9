"""What a set of policies allows: closest rules, denials, and the rights of a task."""

from __future__ import annotations

import fnmatch

from hypothesis import given
from hypothesis import strategies as st

from orchgit.acl.rights import MANAGEMENT, Rights, Workload, compile_rights, matches
from orchgit.acl.rules import parse_rules

_TEXT = st.text("ab*", max_size=6)


def rights_of(*texts: str, workload: Workload | None = None) -> Rights:
    return compile_rights([parse_rules(text) for text in texts], workload)


@given(pattern=_TEXT, name=st.text("ab", max_size=8))
def test_star_stands_for_any_text(pattern: str, name: str) -> None:
    assert matches(pattern, name) == fnmatch.fnmatchcase(name, pattern)


def test_rule_with_the_exact_name_replaces_wider_patterns() -> None:
    rights = rights_of('namespace "*" { policy = "write" }', 'namespace "team" { policy = "read" }')
    assert rights.allows_namespace("team", "read-job")
    assert not rights.allows_namespace("team", "submit-job")
    assert rights.allows_namespace("other", "submit-job")


def test_closest_of_several_patterns_counts() -> None:
    rights = rights_of(
        'namespace "*" { policy = "write" } namespace "team-*" { policy = "read" } '
        'namespace "team-a-*" { policy = "deny" }'
    )
    assert rights.allows_namespace("team-b", "read-job")
    assert not rights.allows_namespace("team-b", "submit-job")
    assert not rights.allows_namespace("team-a-1", "read-job")


def test_denial_of_one_policy_wins_over_the_grant_of_another() -> None:
    policies = ['namespace "a" { policy = "write" }', 'namespace "a" { policy = "deny" }']
    for texts in (policies, policies[::-1]):
        rights = rights_of(*texts)
        assert not rights.allows_namespace("a", "read-job")
        assert not rights.sees_namespace("a")


def test_no_policy_allows_nothing() -> None:
    rights = rights_of()
    assert not rights.allows_namespace("default", "list-jobs")
    assert not rights.allows_namespace("*", "list-jobs")
    assert not rights.allows_coarse("node", "read")
    assert not rights.allows_operator("snapshot-save")
    assert not rights.allows_variable("default", "a", "list")


def test_all_namespaces_stand_for_any_of_them() -> None:
    rights = rights_of('namespace "a" { policy = "read" }')
    assert rights.allows_namespace("*", "read-job")
    assert not rights.allows_namespace("*", "submit-job")


def test_reading_a_variable_implies_listing_and_writing_does_not() -> None:
    rights = rights_of(
        'namespace "a" { variables { path "r" { capabilities = ["read"] } '
        'path "w" { capabilities = ["write"] } } }'
    )
    assert rights.allows_variable("a", "r", "list")
    assert not rights.allows_variable("a", "w", "list")
    assert rights.may_search_variables("a")
    assert not rights.may_search_variables("b")


def test_namespace_policy_gives_no_variables() -> None:
    rights = rights_of('namespace "*" { policy = "write" }')
    assert not rights.allows_variable("default", "a", "read")


def test_closest_variables_path_counts_in_any_namespace() -> None:
    rights = rights_of(
        'namespace "*" { variables { path "*" { capabilities = ["write"] } '
        'path "secret/*" { capabilities = ["deny"] } } }'
    )
    assert rights.allows_variable("default", "plain", "write")
    assert not rights.allows_variable("default", "secret/one", "write")


def test_task_reads_its_own_variables_only() -> None:
    rights = rights_of(workload=Workload("default", "job", "group", "task"))
    for path in ("nomad/jobs", "nomad/jobs/job", "nomad/jobs/job/group/task"):
        assert rights.allows_variable("default", path, "read")
        assert not rights.allows_variable("default", path, "write")
        assert not rights.allows_variable("other", path, "read")
    assert not rights.allows_variable("default", "nomad/jobs/other", "read")


def test_higher_access_of_two_policies_counts_and_deny_is_highest() -> None:
    assert rights_of('node { policy = "read" }', 'node { policy = "write" }').allows_coarse(
        "node", "write"
    )
    denied = rights_of('node { policy = "write" }', 'node { policy = "deny" }')
    assert not denied.allows_coarse("node", "read")


def test_operator_policy_stands_for_capabilities() -> None:
    reader = rights_of('operator { policy = "read" }')
    assert reader.allows_operator("keyring-read")
    assert not reader.allows_operator("snapshot-save")
    assert rights_of('operator { capabilities = ["snapshot-save"] }').allows_operator(
        "snapshot-save"
    )


def test_management_is_allowed_everything() -> None:
    assert MANAGEMENT.allows_namespace("any", "no-such-capability")
    assert MANAGEMENT.allows_coarse("operator", "write")
