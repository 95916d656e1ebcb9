"""Which sources depend on which: cycles among them. Pure.

A source depends on those of its settings, and on those that `orchgit.hcl` of its applied or waiting
commit names; the rollout of that commit records them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orchgit.errors import InvalidInputError
from orchgit.model.source import Source, is_source_name

MAX_DEPENDENCIES = 100


def dependency_cycle(
    name: str, wanted: Iterable[str], others: Mapping[str, Sequence[str]]
) -> list[str]:
    """Returns the names on a way from the source back to itself, it first and last, if it depends
    on `wanted`; empty if there is none. `others` are the dependencies of the other sources."""
    came_from: dict[str, str] = {}
    waiting = []
    for each in wanted:
        came_from.setdefault(each, name)
        waiting.append(each)
    while waiting:
        current = waiting.pop()
        if current == name:
            way = [name]
            while (step := came_from[way[-1]]) != name:
                way.append(step)
            return [name, *reversed(way)]
        for each in others.get(current, ()):
            if each not in came_from:
                came_from[each] = current
                waiting.append(each)
    return []


def check_depends_on(source: Source, others: Iterable[Source]) -> None:
    """Raises InvalidInputError for a source that cannot depend on those of its settings."""
    where = f'cannot store source "{source.name}"'
    wrong = [name for name in source.depends_on if not is_source_name(name)]
    if wrong:
        raise InvalidInputError(f'{where}: "{wrong[0]}" in depends_on is no name of a source')
    if len(source.depends_on) > MAX_DEPENDENCIES:
        raise InvalidInputError(f"{where}: it depends on more than {MAX_DEPENDENCIES} sources")
    known = {each.name: each.depends_on for each in others}
    cycle = dependency_cycle(source.name, source.depends_on, known)
    if cycle:
        raise InvalidInputError(
            f"{where}: sources would wait for each other: {' -> '.join(cycle)}; remove one of "
            "these dependencies with `orchgit source set NAME -depends-on ''`"
        )
