"""Which of the old objects of a list is which of the new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from orchgit.jobdiff.shape import get

T = TypeVar("T")

_SAME_NAME = 2
_SAME_PORT = _SAME_POSITION = 1
_ALIKE = 2
"""The score from which two services are versions of one."""


def by_key(
    old: Iterable[T], new: Iterable[T], key: Callable[[T], str]
) -> list[tuple[str, T | None, T | None]]:
    """Returns (key, old object, new object) for each key of either side, sorted."""
    before = {key(item): item for item in old}
    after = {key(item): item for item in new}
    return [(k, before.get(k), after.get(k)) for k in sorted(before.keys() | after.keys())]


def by_likeness(
    old: Sequence[object], new: Sequence[object]
) -> list[tuple[object | None, object | None]]:
    """Returns (old service, new service); None stands for no counterpart.

    The only service of one side is matched with the only one of the other. Otherwise a service is
    matched with an equal one, or with the first of those most alike by name, port and position.
    """
    if len(old) == 1 and len(new) == 1:
        return [(old[0], new[0])]
    left = dict(enumerate(new))
    pairs: list[tuple[object | None, object | None]] = []
    for position, service in enumerate(old):
        found = _match(service, position, left)
        pairs.append((service, None if found is None else left.pop(found)))
    return [*pairs, *((None, service) for service in left.values())]


def _match(service: object, position: int, others: dict[int, object]) -> int | None:
    equal = next((at for at, other in others.items() if other == service), None)
    if equal is not None:
        return equal
    scores = {at: _score(service, other, position == at) for at, other in others.items()}
    best = max(scores, key=lambda at: scores[at], default=None)
    return best if best is not None and scores[best] >= _ALIKE else None


def _score(service: object, other: object, same_position: bool) -> int:
    return (
        _SAME_NAME * (get(service, "name") == get(other, "name"))
        + _SAME_PORT * (get(service, "port_label") == get(other, "port_label"))
        + _SAME_POSITION * same_position
    )
