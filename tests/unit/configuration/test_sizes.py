"""Sizes of a configuration are read as by the library that Nomad uses (go-humanize 1.1.0)."""

from __future__ import annotations

import pytest

from orchgit.configuration.sizes import SizeError, bytes_of, parse_bytes
from orchgit.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("42", 42),
        ("1,024", 1024),
        ("10b", 10),
        ("1K", 1000),
        ("1kB", 1000),
        ("1 Ki", 1024),
        ("1.5 gib", 3 << 29),
        (".5MB", 500_000),
        ("5.T", 5 * 10**12),
        ("2EiB", 2 << 60),
    ],
)
def test_size_with_its_unit(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", 'parsing "": invalid syntax'),
        ("lots", 'parsing "": invalid syntax'),
        ("1.2.3MB", 'parsing "1.2.3": invalid syntax'),
        ("1MiBx", "unhandled size name: mibx"),
        ("1e3", "unhandled size name: e3"),
        ("16EiB", "too large: 16EiB"),
        ("-1KB", 'parsing "": invalid syntax'),
    ],
)
def test_text_that_is_no_size_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SizeError, match=problem):
        bytes_of(text)
    with pytest.raises(InvalidInputError, match=r"cannot use limit: .* is no size; write"):
        parse_bytes("limit", text)
