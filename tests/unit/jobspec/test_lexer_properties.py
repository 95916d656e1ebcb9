"""Whatever the text: tokens cover it, mistakes are errors at a place, and work grows with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobspec.errors import Diagnostics, HclError, JobFileErrors, SourceText
from jobspec.hcl.format import format_text
from jobspec.hcl.lexer import Token, tokenize, tokenize_template
from jobspec.hcl.parser import parse_body, parse_expression, parse_template
from jobspec.parse import parse_job, read_body
from tests.support.cpu_time import least_cpu_s
from tests.support.jobspec_mutations import PIECES, golden_texts

KINDS = {
    "id", "num", "str", "nl", "eof", "bad", "oq", "cq", "oh", "ch", "lit", "qnl", "${", "%{", "te",
}  # fmt: skip
MORE = (
    *PIECES, " ", "a", "job", '"a"', "<<-EOT\n", "<<X\r\n", "X\r\n", "\ufeff", "\x00", "\x0b", "~",
    "${~", "%{if true}", "%{else}", "%{endif}", "'", ";", "&&", "|", "::", "\u0301", "😀", "\ud7ff",
    "${a}", "\\q", "\\u12", "-a", "a-b", "0x1", "1.", ".5", "1e", "//x", "*/", "\r\n", "\n\n",
)  # fmt: skip
SNIPPETS = st.lists(st.sampled_from(MORE) | st.text(max_size=4), max_size=30).map("".join)
TEXTS = SNIPPETS | st.text(max_size=60)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | SNIPPETS,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["job", "group", "task", "config", "image", "variable", "locals", "dynamic",
                         "for_each", "content", "meta", "x", "//"]) | st.text(max_size=4),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


def check_tokens(text: str, tokens: list[Token], end: int) -> None:
    """In order, within the text, nothing but spaces and comments between them."""
    at = 0
    for kind, start, stop in tokens:
        assert at <= start <= stop <= end
        between = text[at:start].removeprefix("" if at else "\ufeff").strip(" \t")
        assert not between or (between.startswith("/*") and between.endswith("*/"))
        if kind not in KINDS:
            assert kind == text[start:stop]
        if kind not in ("eof", "ch", "oh", "nl"):
            assert stop > start
        at = stop
    assert tokens[-1][0] == "eof"
    assert tokens[-1][1] == end


def _is_too_deep(error: HclError) -> None:
    assert "Nesting too deep" in error.message


def _is_told_well(error: JobFileErrors) -> None:
    assert error.problems
    assert error.pretty()


@settings(max_examples=300, deadline=None)
@given(TEXTS)
@example("<<A\n${<<B\nx\nB\n}\nA\n")
@example("\ufeff/**/a=1")
@example('"a${"b${"c"}"}"')
def test_tokens_cover_the_text(text: str) -> None:
    try:
        tokens, errors = tokenize(text, 1 if text.startswith("\ufeff") else 0)
    except HclError as error:
        _is_too_deep(error)
        return
    check_tokens(text, tokens, len(text))
    bad = [token for token in tokens if token[0] in ("bad", "qnl")]
    assert bool(errors) == bool(bad)
    assert all(0 <= error.start <= error.end <= len(text) for error in errors)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(0, 10), st.integers(0, 70))
def test_tokens_of_a_template_cover_its_range(text: str, start: int, end: int) -> None:
    start, end = min(start, len(text)), min(max(start, end), len(text))
    try:
        tokens, _ = tokenize_template(text, start, max(start, end))
    except HclError as error:
        _is_too_deep(error)
        return
    moved = [(kind, first - start, last - start) for kind, first, last in tokens]
    check_tokens(text[start:], moved, end - start)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_any_text_is_read_or_refused_at_a_place(text: str) -> None:
    source = SourceText("x", text)
    diagnostics = Diagnostics(source)
    parse_body(source, diagnostics)
    for problem in diagnostics.found:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
        assert problem.pretty()
    for parse in (
        lambda: parse_expression(text),
        lambda: parse_template(text, 0, len(text)),
        lambda: format_text(SourceText("x", text), Diagnostics(SourceText("x", text))),
    ):
        try:
            parse()
        except (HclError, JobFileErrors):
            continue


@settings(max_examples=300, deadline=None)
@given(
    TEXTS.map(str.encode) | st.binary(max_size=60),
    st.dictionaries(st.sampled_from(["a", "b", "l"]), TEXTS, max_size=2),
    TEXTS.map(str.encode) | st.binary(max_size=30),
)
def test_any_bytes_are_a_job_or_its_errors(
    content: bytes, variables: dict[str, str], var_file: bytes
) -> None:
    declared = b'variable "a" {}\nvariable "l" {\n  type = list(any_)\n  default = []\n}\n'
    for source in (content, declared.replace(b"any_", b"string") + content):
        try:
            parse_job(
                source,
                filename="x.hcl",
                variables=variables,
                var_files=[("v.hcl", var_file)],
                env={"NOMAD_VAR_b": "x"},
                strict=False,
            )
        except JobFileErrors as error:
            _is_told_well(error)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([text for _, text in golden_texts()]), st.data())
def test_piece_of_a_file_with_a_piece_put_in(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    piece = data.draw(SNIPPETS)
    for changed in (text[:start] + piece + text[end:], text[start:end] + piece):
        try:
            parse_job(changed.encode(), filename="x.hcl")
        except JobFileErrors as error:
            _is_told_well(error)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_json_is_a_job_or_its_errors(value: object) -> None:
    variable = {"v": {"default": 1}}
    for document in (value, {"job": {"x": value}}, {"job": value, "variable": variable}):
        try:
            parse_job(json.dumps(document).encode(), filename="x.json")
        except JobFileErrors as error:
            _is_told_well(error)


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from('{}[]",:\\/u012 \n$truefalsn'), max_size=40))
def test_any_near_json_is_read_or_refused(text: str) -> None:
    source = SourceText("x.json", "{" + text)
    diagnostics = Diagnostics(source)
    read_body(source, diagnostics)
    assert all(problem.message for problem in diagnostics.found)


def _seconds(run: Callable[[str], object], text: str) -> float:
    def work() -> None:
        with suppress(JobFileErrors):
            run(text)

    return least_cpu_s(work)


def _whole(text: str) -> object:
    return parse_job(text.encode(), filename="x.hcl")


GROWING = {
    "names": lambda n: "a " * n,
    "strings": lambda n: '"' * n,
    "escapes": lambda n: 'a = "' + "\\" * n,
    "dollars": lambda n: 'a = "' + "$" * n + '"\n',
    "doubled": lambda n: 'a = "' + "$${" * n + '"\n',
    "sequences": lambda n: 'a = "' + "${b}" * n + '"\n',
    "open sequences": lambda n: 'a = "' + "${b " * min(n, 90) + " " * n,
    "open comments": lambda n: "/*" * n,
    "stars": lambda n: "/*" + "*" * n,
    "slashes": lambda n: "/" * n,
    "heredoc lines": lambda n: "a = <<E\n" + "x\n" * n + "E\n",
    "open heredocs": lambda n: "a = <<E\n" * n,
    "heredoc spaces": lambda n: "a = <<-E\n" + " " * n + "\n" + "  x\n" * 50 + "E\n",
    "heredoc in heredoc": lambda n: "a = <<E\n" + "${<<F\nx\nF\n}\n" * n + "E\n",
    "directives": lambda n: 'a = "' + "%{if true}x%{endif}" * n + '"\n',
    "brackets": lambda n: "a = " + "[" * n,
    "closing": lambda n: "]" * n,
    "lists": lambda n: "a = [" + "1, " * n + "]\n",
    "sums": lambda n: "a = 1" + " + 1" * n + "\n",
    "steps": lambda n: "a = b" + ".c" * n + "\n",
    "signs": lambda n: "a = " + "-" * n + "1\n",
    "digits": lambda n: "a = " + "9" * n + "\n",
    "newlines": lambda n: "\n" * n,
    "carriage returns": lambda n: "\r" * n,
    "bad characters": lambda n: "'" * n,
    "broken strings": lambda n: '"\n' * n,
    "attributes": lambda n: "".join(f"a{i} = 1\n" for i in range(n)),
    "same attributes": lambda n: "a = 1\n" * n,
    "blocks": lambda n: "a {\n}\n" * n,
    "labels": lambda n: "a " + '"b" ' * n + "{\n}\n",
    "unicode": lambda n: "é" * n,
    "combining": lambda n: "a = 'e" + "\u0301" * n,
    "json strings": lambda n: '{"a": "' + "${b}" * n + '"}',
    "json nesting": lambda n: '{"a":' * n,
    "json escapes": lambda n: "{" + ", ".join(f'"a{i}": "\\u0041${{b}}"' for i in range(n)) + "}",
    "json members": lambda n: "{" + ", ".join(f'"a{i}": 1' for i in range(n)) + "}",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", GROWING)
def test_work_grows_no_faster_than_the_text(name: str) -> None:
    """Eight times the text is at most about eight times the work; where it were squared, it would
    be sixty-four times."""
    make: Callable[[int], str] = GROWING[name]
    small, large = _seconds(_whole, make(1_500)), _seconds(_whole, make(12_000))
    assert large < 0.02 or large < 24 * max(small, 0.0005), (small, large)
