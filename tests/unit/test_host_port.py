"""Addresses in the form host:port."""

from __future__ import annotations

import pytest

from orchgit.errors import InvalidInputError
from orchgit.host_port import (
    is_host_port,
    is_loopback,
    is_wildcard,
    join_host_port,
    split_host_port,
)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("node-1.example:4646", ("node-1.example", 4646)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_address_is_split_and_joined(address: str, parts: tuple[str, int]) -> None:
    assert split_host_port(address) == parts
    assert join_host_port(*parts) == address


@pytest.mark.parametrize(
    "text",
    ["", "host", ":4646", "host:", "host:x", "host:65536", "host:-1", "host:²", "h:" + "9" * 6],
)
def test_text_of_another_form_is_refused(text: str) -> None:
    assert not is_host_port(text)
    with pytest.raises(InvalidInputError, match="cannot use address"):
        split_host_port(text)


@pytest.mark.parametrize(
    ("address", "loopback", "wildcard"),
    [
        ("localhost:1", True, False),
        ("127.9.9.9:1", True, False),
        ("[::1]:1", True, False),
        ("10.0.0.1:1", False, False),
        ("0.0.0.0:1", False, True),
        ("[::]:1", False, True),
        ("example:1", False, False),
    ],
)
def test_loopback_and_wildcard_addresses_are_known(
    address: str, loopback: bool, wildcard: bool
) -> None:
    assert (is_loopback(address), is_wildcard(address)) == (loopback, wildcard)
