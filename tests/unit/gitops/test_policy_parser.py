"""`orchgit.hcl`: every block is read with its place, and every mistake is shown with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchgit.errors import JobFileError, OrchgitError
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.parsing.discovery import Discoverer
from orchgit.gitops.parsing.job_parser import JobspecParser
from orchgit.gitops.parsing.policy_parser import MAX_POLICY_BYTES, parse_policy
from orchgit.gitops.parsing.pool import ParsePool
from orchgit.gitops.parsing.trees import MemoryTree
from orchgit.model.base import NS_PER_S
from orchgit.model.repository_policy import (
    GateRule,
    Hook,
    JobDependency,
    JobRule,
    PruneRule,
    RepositoryPolicy,
    SourceDependency,
    WindowRule,
)
from orchgit.model.source import Source

EXAMPLE = Path(__file__).parents[3] / "examples" / "gitops" / "orchgit.hcl"


def problems(text: str) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        parse_policy(text.encode())
    return list(caught.value.problems)


def test_empty_file_has_an_empty_policy() -> None:
    assert parse_policy(b"# nothing\n") == RepositoryPolicy()


def test_every_block_is_read_with_its_place() -> None:
    policy = parse_policy(
        b"""depends_on_sources = ["base"]
job "web" {
  depends_on = ["db", "ops/cache:registered"]
}
hook "migrate" {
  stage = "pre"
  job   = "db-migrate"
  run   = "each_commit"
}
window "hours" {
  allow     = "0 9 * * MON-FRI"
  duration  = "8h"
  time_zone = "Europe/Berlin"
}
window "freeze" {
  deny     = "0 0 20 12 *"
  duration = "336h"
}
gate {
  health      = "revert"
  deadline    = "15m"
  require_fit = true
  approvals   = 2
}
prune {
  enabled           = false
  max_share_percent = 10
}
"""
    )
    hour_ns = 3600 * NS_PER_S
    assert policy == RepositoryPolicy(
        jobs=[
            JobRule(
                "web",
                [JobDependency("db", "", 3, 18), JobDependency("ops/cache", "registered", 3, 24)],
                2,
                1,
            )
        ],
        depends_on_sources=[SourceDependency("base", 1, 24)],
        hooks=[Hook("migrate", "pre", "db-migrate", "each_commit", 5, 1)],
        windows=[
            WindowRule(
                "hours", "allow", "0 9 * * MON-FRI", 8 * hour_ns, "Europe/Berlin", line=10, column=1
            ),
            WindowRule("freeze", "deny", "0 0 20 12 *", 336 * hour_ns, line=15, column=1),
        ],
        gate=GateRule("revert", 900 * NS_PER_S, True, 2, line=19, column=1),
        prune=PruneRule(False, 10, line=25, column=1),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jop {}", '1:1: Unsupported block type: "jop" is not expected here. Did you mean "job"?'),
        ("notify {}", "1:1: Unsupported block type: \"notify\" is not expected here. Notification "
                      "routes are not supported yet."),
        ("depends_on_source = []", 'Did you mean "depends_on_sources"?'),
        ('job "a" {\n  depend_on = []\n}', '2:3: Unsupported argument: "depend_on" is not expected '
                                           'here. Did you mean "depends_on"?'),
        ("job {}", '1:1: Missing name: "job" needs 1 label.'),
        ('job "a" {}\njob "a" {}', '2:1: Duplicate block: job "a" is given twice.'),
        ('job "a" { depends_on = "b" }', 'a list such as ["db"] is required'),
        ('job "a" { depends_on = ["b:helthy"] }', 'unknown condition "helthy"'),
        ('job "a" { depends_on = ["b", "b"] }', '"b" is named twice'),
        ('job "a" { depends_on = [var.b] }', "there is no variable"),
        ('job "a" { depends_on = [upper("b")] }', "functions may not be called here"),
        ('job "a" {\n  hook "x" {}\n}', '2:3: Unsupported block type: blocks of type "hook"'),
        ('hook "a" { stage = "pre" }', '"hook" needs "job"'),
        ('hook "a" {\n  stage = "per"\n  job = "m"\n}', '2:11: Incorrect value for "stage": "per" '
                                                        'is not "pre" or "post"'),
        ('hook "a" {\n stage = "pre"\n job = "m"\n run = "each_comit"\n}',
         'Did you mean "each_commit"?'),
        ('window "w" { duration = "1h" }', 'needs either "allow" or "deny"'),
        ('window "w" {\n allow = "* *"\n duration = "1h"\n}', "is no cron specification"),
        ('window "w" {\n allow = "0 9 * * *"\n duration = "1h"\n time_zone = "Europe/Berln"\n}',
         'Did you mean "Europe/Berlin"?'),
        ('window "w" {\n deny = "0 9 * * *"\n duration = "9000h"\n}', "between 1s and 744h"),
        ("gate { approvals = 11 }", "between 0 and 10"),
        ('gate { health = "rewert" }', 'Did you mean "revert"?'),
        ('gate { require_fit = "true" }', "true or false is required, without quotes"),
        ("gate { approvals = null }", "null is no value"),
        ("gate {}\ngate {}", "2:1: Duplicate block: gate is given twice."),
        ('gate "a" {}', "no label is expected"),
        ('source "a" {\n  source "b" {}\n}', '2:3: Unsupported block type: "source"'),
        ('source "a" {\n  jop "b" {}\n}', 'Did you mean "job"?'),
        ("prune { max_share_percent = 101 }", "between 0 and 100"),
        ("job \"a\" {", "orchgit.hcl:"),
    ],
)  # fmt: skip
def test_mistake_is_refused_with_its_place_and_the_way_out(text: str, expected: str) -> None:
    found = problems(text)
    assert any(expected in problem for problem in found), found
    assert all(problem.startswith("orchgit.hcl:") for problem in found)


def test_source_block_adds_to_what_holds_for_all_sources_and_is_never_laxer() -> None:
    policy = parse_policy(
        b"""depends_on_sources = ["base"]
gate {
  health    = "revert"
  deadline  = "5m"
  approvals = 1
}
prune { max_share_percent = 30 }
source "shop" {
  depends_on_sources = ["net"]
  job "web" { depends_on = ["db"] }
  gate {
    health    = "report"
    deadline  = "10m"
    approvals = 2
  }
  prune {
    enabled           = false
    max_share_percent = 40
  }
}
"""
    )
    other, shop = policy.of_source("other"), policy.of_source("shop")
    assert [each.name for each in other.depends_on_sources] == ["base"]
    assert (other.jobs, other.gate.approvals, other.sources) == ([], 1, {})
    assert [each.name for each in shop.depends_on_sources] == ["base", "net"]
    assert [rule.job for rule in shop.jobs] == ["web"]
    gate = shop.gate
    assert (gate.health, gate.deadline_ns, gate.approvals) == ("revert", 300 * NS_PER_S, 2)
    assert (shop.prune.enabled, shop.prune.max_share_percent) == (False, 30)


def test_all_mistakes_of_a_file_are_shown() -> None:
    assert len(problems('jop {}\ngate { approvals = -1 }\nhook "h" {}')) == 4


def test_file_over_the_limit_is_refused_with_the_limit() -> None:
    (problem,) = problems("#" * (MAX_POLICY_BYTES + 1))
    assert str(MAX_POLICY_BYTES) in problem


def test_file_that_is_no_text_is_refused() -> None:
    with pytest.raises(JobFileError, match=r"orchgit.hcl:2:1: the file must be UTF-8"):
        parse_policy(b"#\n\xff")


def test_pool_parses_the_policy_in_its_processes_as_this_process_does() -> None:
    tree = MemoryTree({"orchgit.hcl": EXAMPLE.read_bytes()}, GitLimits())
    pool = ParsePool()
    try:
        found = Discoverer(JobspecParser(pool)).discover(tree, Source(paths=["*.nomad"]))
        assert found.policy == parse_policy(EXAMPLE.read_bytes()).of_source("")
        assert len(pool.process_ids()) == 1
    finally:
        pool.close()


def test_policy_file_is_no_job_file_and_its_problems_are_those_of_the_commit() -> None:
    files = {"orchgit.hcl": b"jop {}", "sub/orchgit.hcl": b"jop {}"}
    found = Discoverer(JobspecParser()).discover(MemoryTree(files, GitLimits()), Source())
    assert found.jobs == {}
    places = {problem.split(" ")[0] for problem in found.problems}
    assert places == {"orchgit.hcl:1:1:"}
    assert found.without_job == {"sub/orchgit.hcl"}
    texts = [problem for problem in found.problems if problem.startswith("orchgit.hcl")]
    assert texts == [
        'orchgit.hcl:1:1: Unsupported block type: "jop" is not expected here. Did you mean "job"?'
    ]


class BrokenParser(JobspecParser):
    def __init__(self, error: OrchgitError) -> None:
        super().__init__()
        self.error: OrchgitError | None = error

    def parse_policy(self, file: object) -> RepositoryPolicy:
        if self.error is not None:
            raise self.error
        return RepositoryPolicy()


def test_policy_that_could_not_be_parsed_is_parsed_again() -> None:
    parser = BrokenParser(OrchgitError("cannot parse now"))
    discoverer = Discoverer(parser)
    tree = MemoryTree({"orchgit.hcl": b"gate {}"}, GitLimits())
    assert discoverer.discover(tree, Source()).problems == ("orchgit.hcl:1:1: cannot parse now",)
    parser.error = None
    assert discoverer.discover(tree, Source()).problems == ()
