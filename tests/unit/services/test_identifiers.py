"""The beginnings of ids as clients send them."""

from __future__ import annotations

import pytest

from orchgit.services.identifiers import uuid_prefix

ID = "d75d029c-30d9-4a1b-8c2d-0123456789ab"


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("", ""),
        ("d", "d"),
        ("d75d029c", "d75d029c"),
        ("d75d029c-", "d75d029c"),
        ("d75d029c3", "d75d029c-3"),
        ("d75d029c30d9", "d75d029c-30d9"),
        ("D75D029C-30D9", "d75d029c-30d9"),
        (ID, ID),
        (ID.replace("-", ""), ID),
        (ID.upper(), ID),
    ],
)
def test_prefix_in_any_form_becomes_the_beginning_of_an_id(sent: str, stored: str) -> None:
    assert uuid_prefix(sent) == stored
    assert ID.startswith(uuid_prefix(sent))


@pytest.mark.parametrize("text", ["web", "_nomad-task-1", ID + "0", "%", "d75d 029c"])
def test_text_that_is_no_id_prefix_stays_unchanged(text: str) -> None:
    assert uuid_prefix(text) == text
