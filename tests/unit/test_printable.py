"""Text from outside never steers a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchgit.printable import printable


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("over\rwritten\b", r"over\x0dwritten\x08"),
        ("\x9b31m", r"\x9b31m"),
        ("web\u202egnp.", r"web\u202egnp."),
        ("\ud800", r"\ud800"),
        ("a\tb\nc", "a\tb\nc"),
        ("Grüße, 世界 \N{WAVING HAND SIGN}", "Grüße, 世界 \N{WAVING HAND SIGN}"),
    ],
)
def test_control_characters_are_made_visible_and_text_stays(given: str, shown: str) -> None:
    assert printable(given) == shown


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    left = {each for each in printable(text) if unicodedata.category(each) in ("Cc", "Cs")}
    assert left <= {"\n", "\t"}


@given(st.text())
def test_printable_text_stays_unchanged(text: str) -> None:
    assert printable(printable(text)) == printable(text)
