"""Lists in pages: `filter`, `reverse`, `per_page` and `next_token`, applied in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from orchgit.api.call import ApiCall
from orchgit.errors import InvalidInputError
from orchgit.filters import Predicate, parse_filter
from orchgit.whole_number import whole_number

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The page that a request asks for, parsed before anything is read."""

    matches: Predicate | None
    per_page: int
    next_token: str
    reverse: bool

    @classmethod
    def of(cls, call: ApiCall) -> PageRequest:
        text = call.query.get("filter")
        return cls(
            matches=parse_filter(text) if text else None,
            per_page=_per_page(call.query.get("per_page")),
            next_token=call.query.get("next_token") or "",
            reverse=call.flag("reverse"),
        )

    def apply(
        self,
        items: Iterable[T],
        token_of: Callable[[T], str],
        view: Callable[[T], Any] = lambda item: item,
        *,
        namespaced: bool = False,
    ) -> tuple[list[T], dict[str, str]]:
        """Returns one page of `items` (in ascending order of tokens), and its headers.

        The token names the first item of the next page, and any text is a lower bound. A token is
        `<index>.<rest>`, or with `namespaced` `<namespace>.<rest>`, and sorts by both parts; others
        sort as texts. Filters look at `view` of each item. A negative size is a page of nothing.
        """
        chosen: Sequence[T] = items if isinstance(items, list) else list(items)
        if self.reverse:
            chosen = chosen[::-1]
        if self.next_token:
            chosen = chosen[self._start([token_of(each) for each in chosen], namespaced) :]
        page: list[T] = []
        for item in chosen:
            if self.matches is not None and not self.matches(view(item)):
                continue
            if self.per_page and len(page) >= self.per_page:
                return page, {"X-Nomad-NextToken": token_of(item)}
            page.append(item)
        return page, {}

    def _start(self, tokens: Sequence[str], namespaced: bool) -> int:
        """Returns where the next page begins, also when the item that the token named is gone."""
        wanted = _sortable(self.next_token, namespaced)
        for place, each in enumerate(tokens):
            token = _sortable(each, namespaced)
            if token <= wanted if self.reverse else token >= wanted:
                return place
        return len(tokens)


def by_index(item: Any) -> str:
    """Returns the token of lists in order of creation: `<create index>.<id>`."""
    return f"{item.create_index}.{item.id}"


def in_order_of_creation(items: Iterable[T]) -> list[T]:
    return sorted(items, key=lambda item: (item.create_index, item.id))  # type: ignore[attr-defined]


def _sortable(token: str, namespaced: bool) -> tuple[int, int, str, str]:
    first, dot, rest = token.partition(".")
    if namespaced:
        return (1, 0, first, rest)
    index = whole_number(first) if dot else None
    return (1, 0, token, "") if index is None else (0, index, "", rest)


def _per_page(text: str | None) -> int:
    if not text:
        return 0
    number = whole_number(text)
    if number is None:
        raise InvalidInputError("Expect a number for `per_page` query string parameter")
    return number
