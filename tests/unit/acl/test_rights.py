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


def _lines(*, denying: str, granting: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    """Lines of a block in any order, one of which denies."""
    return st.lists(st.sampled_from(granting), max_size=4).flatmap(
        lambda lines: st.permutations([denying, *lines])
    )


def _spelled(lines: list[str]) -> st.SearchStrategy[str]:
    """The lines with their first words in large, small or mixed letters, as policies may have."""
    spellings = st.lists(
        st.sampled_from((str.lower, str.upper, str.title)),
        min_size=len(lines),
        max_size=len(lines),
    )
    words = [each.partition(" ") for each in lines]
    return spellings.map(
        lambda chosen: "\n".join(
            f"{spell(word)} {rest}" for spell, (word, _, rest) in zip(chosen, words, strict=True)
        )
    )


def _texts(head: str, lines: list[str]) -> st.SearchStrategy[list[str]]:
    """The lines in one block, in a block each, and in a policy each."""
    blocks = [f"{head} {{ {line} }}" for line in lines]
    together = _spelled(lines).map(lambda body: [f"{head} {{ {body} }}"])
    return st.one_of(together, st.just(["\n".join(blocks)]), st.just(blocks))


_DENYING = ('policy = "deny"', 'capabilities = ["deny"]', 'capabilities = ["read-job", "deny"]')
_GRANTING = (
    'policy = "write"',
    'policy = "read"',
    'capabilities = ["submit-job", "read-job"]',
    "capabilities = []",
    'gitops { policy = "write" }',
    'variables { path "x" { capabilities = ["read"] } }',
)


@given(data=st.data())
def test_denial_anywhere_in_the_rules_of_a_namespace_wins(data: st.DataObject) -> None:
    lines = data.draw(_lines(denying=data.draw(st.sampled_from(_DENYING)), granting=_GRANTING))
    rights = rights_of(*data.draw(_texts('namespace "a"', lines)))
    for capability in ("submit-job", "read-job", "list-jobs", "gitops-sync"):
        assert not rights.allows_namespace("a", capability)
        assert not rights.allows_namespace("*", capability)
    assert not rights.sees_namespace("a")


@given(data=st.data())
def test_denial_anywhere_in_the_rules_of_a_path_wins(data: st.DataObject) -> None:
    granting = ('capabilities = ["read"]', 'capabilities = ["write"]', "capabilities = []")
    lines = data.draw(_lines(denying='capabilities = ["deny"]', granting=granting))
    paths = data.draw(_texts('path "x"', lines))
    blocks = [f"variables {{ {path} }}" for path in paths]
    rights = rights_of(*data.draw(_texts('namespace "a"', blocks)))
    for capability in ("list", "read", "write"):
        assert not rights.allows_variable("a", "x", capability)
        assert not rights.allows_some_variable("a", capability)


@given(data=st.data())
def test_denial_anywhere_in_the_rules_of_node_pools_and_host_volumes_wins(
    data: st.DataObject,
) -> None:
    denying = data.draw(st.sampled_from(_DENYING[:2]))
    pool_lines = _lines(denying=denying, granting=('policy = "write"', 'capabilities = ["read"]'))
    pools = rights_of(*data.draw(_texts('node_pool "p"', data.draw(pool_lines))))
    assert not pools.allows_node_pool("p", "read")
    assert not pools.may_search_node_pools
    volume_lines = _lines(
        denying=denying, granting=('policy = "write"', 'capabilities = ["mount-readonly"]')
    )
    volumes = rights_of(*data.draw(_texts('host_volume "v"', data.draw(volume_lines))))
    assert not volumes.allows_host_volume("v", "mount-readonly")


@given(data=st.data())
def test_denial_anywhere_in_the_rules_of_the_operator_wins(data: st.DataObject) -> None:
    granting = ('policy = "write"', 'capabilities = ["snapshot-save"]')
    denying = data.draw(st.sampled_from(_DENYING[:2]))
    body = data.draw(_spelled(data.draw(_lines(denying=denying, granting=granting))))
    rights = rights_of('operator { policy = "write" }', f"operator {{ {body} }}")
    assert not rights.allows_operator("snapshot-save")
    assert not rights.allows_coarse("operator", "read")


@given(data=st.data())
def test_denial_anywhere_in_the_rules_of_a_topic_wins(data: st.DataObject) -> None:
    for topic in ("node", "agent", "quota", "plugin"):
        lines = data.draw(_lines(denying='policy = "deny"', granting=('policy = "write"',)))
        rights = rights_of(f"{topic} {{ {data.draw(_spelled(lines))} }}")
        assert not rights.allows_coarse(topic, "read")


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
