"""A job file cannot make the reader work for ever or fill the memory."""

from __future__ import annotations

import pytest

from jobspec.errors import JobFileErrors
from jobspec.parse import parse_job
from orchgit.regex import PatternError, compile_pattern

JOB = (
    'job "x" {\n  group "g" {\n    task "t" {\n'
    "      config {\n        a = %s\n      }\n    }\n  }\n}\n"
)


def doubled(first: str, step: str) -> str:
    """Forty locals, each twice the one before."""
    lines = [f"  a{i + 1} = {step.replace('_', f'local.a{i}')}" for i in range(40)]
    return "locals {\n  a0 = " + first + "\n" + "\n".join(lines) + "\n}\n" + JOB % "local.a40"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (JOB % "[for a in range(1024): [for b in range(1024): b]]", "Too many iterations"),
        (doubled('"xxxxxxxx"', '"${_}${_}"'), "String too long"),
        (doubled("[1]", "[_, _]"), "Value too large"),
        (doubled("[1]", "concat(_, _)"), "more than 100000 items"),
        (doubled('"xxxxxxxx"', 'join("", [_, _])'), "longer than"),
        (doubled('"xxxxxxxx"', 'replace(_, "x", "xx")'), "longer than"),
        (JOB % 'format("%999999999d", 1)', "longer than"),
        (JOB % 'indent(999999999, "a\\nb")', "longer than"),
        (JOB % ("9" * 50_000), "too large"),
        (JOB % "1e999999", "too large"),
        (JOB % 'jsondecode("1e999999999")', "out of range"),
        (JOB % ('parseint("' + "9" * 50_000 + '", 10)'), "digits"),
        (JOB % 'yamldecode("a: &a [x]\\nb: &b [*a, *a]\\nc: [*b, *b]")["z"]', "Invalid index"),
        ("/*" * 100_000, "required"),
    ],
)
def test_work_is_bounded(text: str, limit: str) -> None:
    with pytest.raises(JobFileErrors) as caught:
        parse_job(text.encode(), filename="x.hcl")
    assert any(limit in problem for problem in caught.value.problems)


@pytest.mark.timeout(20)
def test_large_honest_files_are_read() -> None:
    names = "".join(f"  a{i} = local.a{i + 1}\n" for i in range(5_000))
    groups = 'group "g" {\n  task "t" {\n    driver = "x"\n  }\n}\n' * 2_000
    text = f'locals {{\n{names}  a5000 = 1\n}}\njob "x" {{\n  priority = local.a0\n{groups}}}\n'
    spec = parse_job(text.encode(), filename="x.hcl").spec
    assert spec["Priority"] == 1
    assert len(spec["TaskGroups"]) == 2_000


@pytest.mark.timeout(20)
def test_no_pattern_takes_for_ever() -> None:
    text = JOB % ('regex_replace("' + "a" * 5_000 + 'b", "(a+)+$", "x")')
    config = parse_job(text.encode(), filename="x.hcl").spec["TaskGroups"][0]["Tasks"][0]["Config"]
    assert config["a"] == "a" * 5_000 + "b"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("[", "missing closing ]: `[`"),
        ("(", "missing closing ): `(`"),
        ("(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
    ],
)
def test_bad_patterns_are_named_as_gos_users_know_them(pattern: str, message: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == f"error parsing regexp: {message}"


@pytest.mark.timeout(20)
def test_many_closing_braces_after_a_runtime_name() -> None:
    text = JOB % ('"${NOMAD_A' + "}" * 100_000 + '"')
    assert parse_job(text.encode(), filename="x.hcl").spec["ID"] == "x"
