"""A fit report as lines for a terminal, and as a comment on a pull request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from orchgit.gitops.commits.fit_markdown import (
    MAX_CHARACTERS,
    PlannedCommit,
    code,
    comment_text,
)
from orchgit.gitops.commits.fit_text import (
    blocked_lines,
    counts_text,
    fit_lines,
    job_text,
    verdict_text,
)
from orchgit.model.fit import (
    Capacity,
    FitReport,
    GroupFit,
    JobFit,
    PreemptedAllocation,
    Room,
    RuledOut,
    failed_fit_report,
    fit_report,
)

SHORT = GroupFit(
    "api",
    placed=3,
    replaced=1,
    blocked=2,
    kept=4,
    ruled_out=[
        RuledOut("constraint ${attr.kernel.name} = linux", 3),
        RuledOut("memory exhausted", 2),
    ],
)
POOL = Capacity(
    "default",
    "dc1",
    3,
    Room(12_000, 24_000, 90_000),
    Room(4000, 8000, 80_000),
    Room(3500, 7000, 79_000),
    Room(2000, 4000, 40_000),
)


def report(*groups: GroupFit, **fields: object) -> FitReport:
    return fit_report(7, [JobFit("default", "web", list(groups))], **fields)  # type: ignore[arg-type]


def test_placed_updated_and_blocked_add_up_to_what_is_wanted() -> None:
    assert counts_text([SHORT]) == "place 3, update 1, keep 4, 2 of 6 blocked"
    assert verdict_text(report(SHORT)) == "Does not fit: 2 of 6 new allocations find no node"
    assert list(blocked_lines(JobFit("default", "web", [SHORT]))) == [
        "group api: 2 of 6 blocked: constraint ${attr.kernel.name} = linux on 3 nodes, "
        "memory exhausted on 2 nodes"
    ]


def test_verdict_is_unknown_where_jobs_were_not_planned_or_the_dry_run_failed() -> None:
    assert verdict_text(report(GroupFit("a", placed=2))) == (
        "Fits: 2 of 2 new allocations find a node"
    )
    assert verdict_text(report(GroupFit("a", updated=2))) == "Fits: no new allocation is needed"
    assert verdict_text(report(GroupFit("a", placed=1), not_planned=5)) == (
        "Unknown whether it fits: 5 jobs not planned: no time left"
    )
    assert verdict_text(report(GroupFit("a", no_node_qualifies=True), not_planned=1)) == (
        "Does not fit: no node qualifies for 1 group; 1 job not planned: no time left"
    )
    assert verdict_text(failed_fit_report("cannot read the state")) == (
        "Unknown whether it fits: cannot read the state"
    )


def test_first_step_of_an_update_is_told() -> None:
    steps = JobFit("default", "web", [GroupFit("g", replaced=10, first=2)])
    assert job_text(steps) == "update 10; first 2"
    canary = JobFit("default", "web", [GroupFit("g", replaced=4, first=1, canaries=1)])
    assert job_text(canary) == "update 4; first 1 canary"
    stuck = GroupFit("g", replaced=4, first_blocked=1, ruled_out=[RuledOut("cpu exhausted", 1)])
    assert verdict_text(report(stuck)) == (
        "Does not fit: 1 of a first step find no node beside the allocations that run"
    )
    assert list(blocked_lines(JobFit("default", "web", [stuck]))) == [
        "group g: 1 blocked at first, beside the allocations that run: cpu exhausted on 1 node"
    ]


def test_lines_of_a_report_fit_80_columns_and_cut_no_name() -> None:
    long = "a-job-whose-name-is-longer-than-any-terminal-" * 3
    preempted = [
        PreemptedAllocation(f"{n}bcdef0123", "default", "batch", "g", "n", "web") for n in "123456"
    ]
    whole = fit_report(
        7,
        [JobFit("default", "web", [SHORT]), JobFit("other", long, [SHORT])],
        preempted=preempted,
        capacity=[POOL],
    )
    lines = list(fit_lines(whole, {("default", "web"): "update", ("other", long): "create"}))
    assert all(long in line for line in lines if len(line) > 80)
    assert "  ~ web: place 3, update 1, keep 4, 2 of 6 blocked" in lines
    assert any(long in line for line in lines)
    assert any("! batch: 6 preempted by web (1bcdef01, " in line for line in lines)
    assert lines[-3].split() == [
        "default", "dc1", "3", "cpu", "MHz", "12000", "4000", "3500", "2000",
    ]  # fmt: skip


def commit(name: str, fit: FitReport) -> PlannedCommit:
    return PlannedCommit("demo", {("default", name): "create"}, 3, fit=fit, plan_hash="ab" * 32)


def test_comment_has_verdict_jobs_reasons_and_capacity() -> None:
    text = comment_text(commit("web", report(SHORT, capacity=[POOL])))
    assert "**Does not fit**: `2 of 6 new allocations find no node`" in text
    assert "| create | `web` | `place 3, update 1, keep 4, 2 of 6 blocked` |" in text
    assert "- `web: group api: 2 of 6 blocked: constraint ${attr.kernel.name} = linux on" in text
    assert "| `default` | `dc1` | `3` | `cpu MHz` | `12000` | `4000` | `3500` | `2000` |" in text


def test_comment_of_a_refused_commit_lists_its_problems() -> None:
    text = comment_text(PlannedCommit("demo", {}, 0, problems=["a.hcl:1:1: no", "b.hcl:2:1: no"]))
    assert "**Refused: 2 problems.**" in text
    assert "- `a.hcl:1:1: no`" in text


NASTY = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "`</code><img src=x onerror=alert(1)>",
            "a`b``c```d",
            "web|x|y\\|z",
            "@everyone please look at #1",
            "[click](javascript:alert(1))",
            "![x](https://example.com/pixel.png)",
            "web\n\n# Title\n| a |\n<script>",
            "&lt;b&gt; &#64;ada",
            "\x1b[31mred\u202e",
        ]
    ),
)
PLAIN = {"code_inline", "text", "softbreak", "strong_open", "strong_close"}


@given(name=NASTY, reason=NASTY)
def test_no_name_or_reason_becomes_markup_in_a_comment(name: str, reason: str) -> None:
    group = GroupFit(name or "g", blocked=1, ruled_out=[RuledOut(reason, 1)])
    fit = fit_report(1, [JobFit("default", name, [group])], capacity=[POOL])
    shown = comment_text(commit(name, fit))
    plain = comment_text(
        commit(
            "web", report(GroupFit("g", blocked=1, ruled_out=[RuledOut("r", 1)]), capacity=[POOL])
        )
    )
    parser = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    blocks, expected = parser.parse(shown), parser.parse(plain)
    assert [each.type for each in blocks] == [each.type for each in expected]
    for block, model in zip(blocks, expected, strict=True):
        if block.type == "html_block":
            assert block.content == model.content
        inline = block.children or []
        assert {each.type for each in inline} <= PLAIN
        texts = "".join(each.content for each in inline if each.type == "text")
        assert texts == "".join(
            each.content for each in model.children or [] if each.type == "text"
        )


@given(text=NASTY)
def test_code_span_is_one_line_of_bounded_length(text: str) -> None:
    span = code(text * 20)
    assert "\n" not in span
    assert len(span) <= 310
    assert "`" not in span[1:-1]


def test_comment_stays_below_the_limit_of_the_hosts() -> None:
    groups = [GroupFit("g" * 200, blocked=1, ruled_out=[RuledOut("r" * 300, 1)])]
    jobs = [JobFit("default", f"{n}-{'j' * 250}", groups) for n in range(400)]
    actions = {("default", job.job_id): "create" for job in jobs}
    text = comment_text(PlannedCommit("demo", actions, 0, fit=fit_report(1, jobs)))
    assert len(text) <= MAX_CHARACTERS + 100
    assert text.endswith("lines are left out.\n")
