"""Collects what makes a configuration useless, so that all of it is told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import ParamSpec, TypeVar

from orchgit.errors import InvalidInputError
from orchgit.hcl1.tree import Position

P = ParamSpec("P")
T = TypeVar("T")
_NO_KEY = re.compile(r"cannot use (?:the )?|[\s,:]")


class Faults:
    """Takes what raises InvalidInputError, and notes the sentence with the place of the key.

    `places` has the last place of each key and block, by its path with labels. Of `refused` keys
    the default stands in the place of the value, so nothing is said of what they mean with others.
    """

    def __init__(self, places: Mapping[str, Position], refused: Collection[str] = ()) -> None:
        self._places = places
        self._refused = refused
        self._found: dict[str, Position | None] = {}

    @property
    def lines(self) -> list[str]:
        """Returns the sentences in the order of their places, those without one at the end."""
        placed = sorted((place, text) for text, place in self._found.items() if place is not None)
        rest = [text for text, place in self._found.items() if place is None]
        return [*(f"{place}: {text}" for place, text in placed), *rest]

    def made(
        self, path: str, make: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Returns what `make` returns; None where it raises. `path` is the key or the block that
        the values come from, "" if there is none."""
        try:
            return make(*args, **kwargs)
        except InvalidInputError as error:
            self.add(path, error.message)
            return None

    def add(self, path: str, text: str) -> None:
        """Notes a sentence about a key, or about the keys of a block; the same one is told once."""
        if path and any(one == path or one.startswith(f"{path}.") for one in self._refused):
            return
        self._found.setdefault(text, self._place(path, text))

    def _place(self, path: str, text: str) -> Position | None:
        """Returns where the key stands that the sentence begins with, or the nearest block."""
        named = next((word for word in _NO_KEY.split(text) if word in self._places), "")
        if named and (named == path or named.startswith(f"{path}.")):
            path = named
        while path:
            if path in self._places:
                return self._places[path]
            path = path.rpartition(".")[0]
        return None
