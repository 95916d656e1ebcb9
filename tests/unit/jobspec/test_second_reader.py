"""Our reader and python-hcl2 must see the same in every file, but for the differences listed here.

They were measured against HCL2's own implementation, which our reader agrees with; each entry says
what python-hcl2 does otherwise.
"""

from __future__ import annotations

import bisect
import random
import re

import pytest

from jobspec.errors import Diagnostics, SourceText
from jobspec.hcl.lexer import Token, tokenize
from jobspec.hcl.parser import parse_body
from jobspec.hcl.tree import Body
from tests.support.jobspec_mutations import golden_texts, mutate
from tests.support.second_reader import Outline, SecondReaderError, outline

TOO_LAX = (
    ("Argument or block definition required", "takes newlines before a brace or an operator"),
    ("Argument definition required", "takes a nested block in a block of one line"),
    ("Attribute redefined", "keeps both"),
    ("Extra characters after", "leaves what is inside a heredoc's sequences unread"),
    ("Incorrect", "leaves what is inside a heredoc's sequences unread"),
    ("Invalid 'for' expression", "takes `for` as a key"),
    ('Invalid "for" expression', "takes `for` as a key, or leaves a heredoc unread"),
    ("Invalid attribute name", "leaves what is inside a heredoc's sequences unread"),
    ("Invalid block definition", "takes a newline before the brace"),
    ("Invalid character: this character", "skips form feeds and other white space"),
    ("Invalid escape sequence", "keeps any escape as it stands"),
    ("Invalid expression", "takes newlines around operators, or leaves a heredoc unread"),
    ("Invalid legacy index", "reads 0.1 as two indexes"),
    ("Invalid multi-line string", "takes a newline inside quotes"),
    ("Invalid single-argument block", "takes several arguments on one line"),
    ("Invalid string literal", "takes template sequences in labels"),
    ("Invalid template", "leaves directives unread"),
    ("Missing argument separator", "leaves what is inside a heredoc's sequences unread"),
    ("Missing attribute separator", "needs no comma between the items of an object"),
    ("Missing attribute value", "leaves what is inside a heredoc's sequences unread"),
    ("Missing close bracket", "leaves what is inside a heredoc's sequences unread"),
    ("Missing false expression", "leaves what is inside a heredoc's sequences unread"),
    ("Missing item separator", "leaves what is inside a heredoc's sequences unread"),
    ("Missing newline after", "takes several definitions on one line"),
    ("Invalid number literal", "has no limit of its own"),
    ("Nesting too deep", "has no limit of its own"),
    ("Unbalanced parentheses", "leaves what is inside a heredoc's sequences unread"),
    ("Unexpected", "leaves directives unread"),
    ("Unterminated", "leaves heredocs and directives unread"),
    ("Unsupported operator", "leaves what is inside a heredoc's sequences unread"),
)
TOO_STRICT = (
    (r"/\*", "knows no /* */ inside an expression"),
    (r"[!-]\s*[!-]", "knows no double signs"),
    (r"[-]\s*[0-9]", "glues a sign to the number after it"),
    (r"[^\x00-\x7f]", "knows only ASCII names, and no byte order mark"),
    (r"::", "knows no namespaces of functions"),
    (r"\$\{[^}]*\n", "knows no newline inside an interpolation"),
    (r"[$%]\{~|~\}", "knows strip markers only in part"),
    (r"<<-?\w[\w-]*\n(?:.*\n)*?[ \t]*\w[\w-]*[ \t]+\n", "wants nothing after a heredoc's marker"),
    (r"<<-?_", "knows no marker that starts with _"),
    (r"\$\$\{|%%\{", "does not always see that a doubled sign opens nothing"),
    (r"%\{", "reads directives only in part"),
    (r"\b(?:in|if|for|for_each|null|true|false|else|endif|endfor)\b", "reserves these as names"),
    (r"\.\s*\n|\n\s*\.|[[(]\s*\n", "ends an expression at newlines inside brackets"),
    (r"\(\s*\.\.\.|\.\.\.", "takes an expansion in fewer places"),
    (r"#|//", "takes comments in fewer places"),
    (r"\r", "wants lines to end in \\n"),
    (r"\w\s+\(", "wants the parenthesis right after a function's name"),
    (r"[[(]\s*[?:]|\?", "takes conditionals in fewer places"),
    (r"<<", "wants a heredoc's marker at the end of its argument"),
)


def ours(text: str) -> tuple[Outline | None, str]:
    """Our outline, or the first problem."""
    source = SourceText("m.hcl", text)
    diagnostics = Diagnostics(source)
    body = parse_body(source, diagnostics)
    if diagnostics.found:
        return None, diagnostics.found[0].message
    tokens, _ = tokenize(text, 1 if text[:1] == "\ufeff" else 0)
    return _outline(body, text, tokens), ""


def _outline(body: Body, text: str, tokens: list[Token]) -> Outline:
    starts = [start for _, start, _ in tokens]

    def plain(start: int, end: int) -> str:
        parts = []
        at = bisect.bisect_left(starts, start)
        while at < len(tokens) and tokens[at][1] < end:
            kind, token_start, token_end = tokens[at]
            parts.append("" if kind == "nl" else text[token_start:token_end])
            at += 1
        return "".join("".join(parts).split())

    items: list[tuple[int, tuple[object, ...]]] = []
    for attribute in body.attributes.values():
        expr = plain(attribute.expr.start, attribute.expr.end)
        items.append((attribute.start, ("attribute", attribute.name, expr)))
    for block in body.blocks:
        labels = tuple("".join(label.value.split()) for label in block.labels)
        inner = _outline(block.body, text, tokens)
        items.append((block.start, ("block", block.type, labels, inner)))
    return [item for _, item in sorted(items, key=lambda pair: pair[0])]


def disagreement(text: str) -> str | None:
    """How the two readers differ on a text in a way that is not listed, or None."""
    mine, problem = ours(text)
    try:
        theirs: Outline | None = outline(text)
        refusal = ""
    except SecondReaderError as error:
        theirs, refusal = None, str(error)
    if mine is not None and theirs is not None:
        return None if mine == theirs or "\\" in text else f"{mine} != {theirs}"
    if mine is None and theirs is not None:
        known = any(problem.startswith(start) for start, _ in TOO_LAX)
        return None if known else f"only we refuse: {problem}"
    if theirs is None and mine is not None:
        known = any(re.search(pattern, text) for pattern, _ in TOO_STRICT)
        return None if known else f"only they refuse: {refusal}"
    return None


def test_recorded_file_reads_the_same_with_both_readers() -> None:
    found = {name: disagreement(text) for name, text in golden_texts()}
    assert {name: what for name, what in found.items() if what is not None} == {}


def _mutated(count: int, seed: int) -> None:
    rng = random.Random(seed)
    texts = golden_texts()
    for _ in range(count):
        name, text = rng.choice(texts)
        mutated = mutate(text, rng)
        what = disagreement(mutated)
        assert what is None, f"{name}: {what}\n{mutated}"


def test_mutated_file_reads_the_same_with_both_readers() -> None:
    _mutated(400, seed=20260821)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_mutated_files_read_the_same_with_both_readers() -> None:
    _mutated(20_000, seed=7)


def test_unlisted_difference_would_be_seen() -> None:
    assert disagreement('a = "x"\n') is None
    assert disagreement("job {\n  b c {\n  }\n}\n") is None
    assert disagreement("a = 5 -10\n") is None
    assert disagreement("a = 1\na = 2\n") is None
