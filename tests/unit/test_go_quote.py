"""Strings in messages stand in quotes as Go's strconv.Quote writes them."""

from __future__ import annotations

import pytest

from orchgit.go_quote import quote, unquote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("web", '"web"'),
        ('say "hi"', r'"say \"hi\""'),
        ("a\\b", r'"a\\b"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("\x80", r'"\u0080"'),
        ("<&>", '"<&>"'),
        ("é", '"é"'),
        ("\u2028", r'"\u2028"'),
        ("\U000e0001", r'"\U000e0001"'),
        ("\udcff", r'"\xff"'),
    ],
)
def test_text_is_escaped_as_go_escapes_it(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@pytest.mark.parametrize(("text", "quoted"), [("é", r'"\u00e9"'), ("😀", r'"\U0001f600"')])
def test_text_beyond_ascii_is_escaped_where_asked(text: str, quoted: str) -> None:
    assert quote(text, ascii_only=True) == quoted


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (r'"a\tb\\c\""', 'a\tb\\c"'),
        (r'"\x41\101\u00e9\U0001f600"', "AAé😀"),
        (r'"\xc3\xa9"', "é"),
        (r'"\xff"', "\udcff"),
        ("`a\r\nb\\n`", "a\nb\\n"),
        (r"'\''", "'"),
        ('""', ""),
    ],
)
def test_literal_is_read_as_go_reads_it(literal: str, text: str) -> None:
    assert unquote(literal) == text


@pytest.mark.parametrize(
    "literal",
    [
        "",
        "a",
        '"',
        '"a',
        "\"a'",
        '"a"b"',
        '"a\nb"',
        r'"\q"',
        r"\"\'\"",
        r'"\'"',
        r'"\x4"',
        r'"\400"',
        r'"\ud800"',
        r'"\Uffffffff"',
        "`a`b`",
        '"\\"',
    ],
)
def test_text_that_is_no_literal_is_refused(literal: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        unquote(literal)
