"""The formatter: HCL's layout, meaning kept, the same when done twice."""

from __future__ import annotations

import random
import re

import pytest

from jobspec.errors import Diagnostics, SourceText
from jobspec.hcl.format import format_text
from jobspec.hcl.lexer import tokenize
from tests.support.jobspec_mutations import golden_texts, mutate

CASES = {
    "indents and aligned signs": (
        'job "x"{\ntype="batch"\n      priority    =   50\n\n\n  group "g" {}\n}',
        'job "x" {\n  type     = "batch"\n  priority = 50\n\n\n  group "g" {}\n}\n',
    ),
    "a blank line, a comment and an open bracket end a column": (
        "a=1\nlonger = 2\n# note\nb = 3\n\nlongest_of = 4\nlist = [\n1,\n]\nc=5\n",
        "a      = 1\nlonger = 2\n# note\nb = 3\n\nlongest_of = 4\nlist = [\n  1,\n]\nc = 5\n",
    ),
    "comments at the end of lines stand below each other": (
        "a = 1 # one\nbcd = 22 // two\n  # alone\n/* in */ e = /* the */ 3\n",
        "a   = 1  # one\nbcd = 22 // two\n# alone\n/* in */ e = /* the */ 3\n",
    ),
    "operators, signs and calls": (
        "a=[ -1,- 2, 3-1,!b , f( -1 ,x... ), a [ 0 ] . b, x.*[0], c?-1:- 2,-(1), y[*].z]\n",
        "a = [-1, -2, 3 - 1, !b, f(-1, x...), a[0].b, x.*[0], c ? -1 : -2, -(1), y[*].z]\n",
    ),
    "objects and for": (
        'a={b=1,"c":2}\nd={for k,v in(x):k=>v if v!=null}\ne={}\nf=[]\n',
        'a = { b = 1, "c" : 2 }\nd = { for k, v in (x) : k => v if v != null }\ne = {}\nf = []\n',
    ),
    "brackets that open and close together are one step": (
        "a = [{\nb = 1\n}, {\nb = 2\n}]\nc = f([\n1\n])\n",
        "a = [{\n  b = 1\n  }, {\n  b = 2\n}]\nc = f([\n  1\n])\n",
    ),
    "heredocs and quotes are left alone": (
        'a = <<-EOT\n   x  =  ${ y }\n     EOT\nbcd   = "a  ${ b   }%{ if c }  %{ endif }"\n',
        'a   = <<-EOT\n   x  =  ${ y }\n     EOT\nbcd = "a  ${ b   }%{ if c }  %{ endif }"\n',
    ),
    "numbers are not joined": ("a = x.0 . 1\nb = 1 . 5\n", "a = x.0. 1\nb = 1. 5\n"),
    "line ends stay what they are": ("a=1 \r\nbb=2\t\r\n", "a  = 1\r\nbb = 2\r\n"),
    "a name in quotes is no attribute": ('"żółć" = 1\n', None),
    "a mark at the start stays": ("\ufeffa  =1\n", "\ufeffa = 1\n"),
    "nothing": ("", ""),
}


def formatted(text: str) -> tuple[str | None, list[str]]:
    diagnostics = Diagnostics(SourceText("x.hcl", text))
    result = format_text(diagnostics.source, diagnostics)
    return result, [str(problem) for problem in diagnostics.found]


@pytest.mark.parametrize("name", CASES)
def test_formatter_gives_the_recorded_layout(name: str) -> None:
    before, after = CASES[name]
    result, problems = formatted(before)
    assert result == after, problems
    if after is not None:
        assert formatted(after)[0] == after


def test_columns_count_what_a_reader_sees() -> None:
    result, _ = formatted("żó\u0301 = 1\nabc = 2\n")
    assert result == "żó\u0301  = 1\nabc = 2\n"


def test_mistakes_have_their_place_and_give_no_text() -> None:
    result, problems = formatted('job "x" {\n  a = \n}\n')
    assert result is None
    assert problems[0].startswith("x.hcl:2:7: ")
    result, problems = formatted('{"job": {}}')
    assert result is None
    assert "JSON" in problems[0]


def meaning(text: str) -> list[str]:
    """All that is not white space between tokens."""
    start = 1 if text[:1] == "\ufeff" else 0
    tokens, _ = tokenize(text, start)
    found, before = [], start
    for kind, at, end in tokens:
        found.append("".join(text[before:at].split()))
        inside = kind in ("lit", "oh", "ch", "qnl")
        found.append(text[at:end] if inside else text[at:end].strip())
        before = end
    return [each for each in found if each]


def test_formatting_keeps_the_meaning_and_is_idempotent() -> None:
    count = 0
    for name, text in golden_texts():
        result, _ = formatted(text)
        if result is not None:
            count += 1
            assert meaning(result) == meaning(text), name
            assert formatted(result)[0] == result, name
    assert count > 200


def test_layout_does_not_depend_on_the_spaces() -> None:
    rng = random.Random(7)
    for name, text in golden_texts():
        wanted, _ = formatted(text)
        if wanted is None or "<<" in text or "/*" in text or "${" in text:
            continue
        blown_up = re.sub(r"(?m)^[ \t]*", lambda _: " " * rng.randint(0, 5), text)
        blown_up = re.sub(
            r"(?m)^( *[a-z_]+) *= *", lambda m: f"{m[1]}{' ' * rng.randint(0, 3)}=", blown_up
        )
        assert formatted(blown_up)[0] == wanted, name


def test_formatting_a_mutated_file_never_fails() -> None:
    rng = random.Random(11)
    texts = golden_texts()
    for _ in range(400):
        _, text = rng.choice(texts)
        mutated = mutate(text, rng)
        result, _ = formatted(mutated)
        if result is not None:
            assert formatted(result)[0] == result, mutated
            assert meaning(result) == meaning(mutated), mutated
