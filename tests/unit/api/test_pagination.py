"""Pages: every item once, in order, whatever the page size."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.api.pagination import PageRequest, by_index, in_order_of_creation
from orchgit.filters import parse_filter


class Item(msgspec.Struct):
    id: str
    create_index: int


def token(item: Item) -> str:
    return item.id


def pages(items: list[Item], per_page: int, reverse: bool) -> list[Item]:
    found: list[Item] = []
    next_token = ""
    while True:
        request = PageRequest(None, per_page, next_token, reverse)
        page, headers = request.apply(items, by_index)
        assert len(page) <= per_page
        found += page
        if not headers:
            return found
        next_token = headers["X-Nomad-NextToken"]


@settings(max_examples=50)
@given(
    indexes=st.lists(st.integers(1, 30), max_size=25),
    per_page=st.integers(1, 7),
    reverse=st.booleans(),
)
def test_walking_the_pages_sees_every_item_once_in_order(
    indexes: list[int], per_page: int, reverse: bool
) -> None:
    items = in_order_of_creation(
        Item(f"{number:04x}", index) for number, index in enumerate(indexes)
    )
    assert pages(items, per_page, reverse) == (items[::-1] if reverse else items)


def test_item_that_is_gone_does_not_end_the_walk() -> None:
    items = [Item(name, 1) for name in ("a", "c", "d")]
    request = PageRequest(None, 1, "b", False)
    assert request.apply(items, token)[0] == [items[1]]


def test_filters_come_before_pages() -> None:
    items = [Item(name, 1) for name in ("a", "b", "c")]
    request = PageRequest(parse_filter("id != b"), 1, "", False)
    page, headers = request.apply(items, token)
    assert page == [items[0]]
    assert headers == {"X-Nomad-NextToken": "c"}


def test_no_page_size_means_everything() -> None:
    items = [Item(name, 1) for name in ("a", "b")]
    assert PageRequest(None, 0, "", False).apply(items, token) == (items, {})
