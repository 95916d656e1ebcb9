"""Checks the `plugin` blocks of a configuration file by the options of each driver."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent.drivers.config import option_problems
from agent.drivers.registry import NOMADS_NAMES, OPTION_SHAPES, known_plugins
from orchgit.configuration.reading import Fault, plain_value
from orchgit.go_quote import quote
from orchgit.hcl1.tree import Hcl1Body, Position


def plugin_faults(file: Hcl1Body) -> Iterator[Fault]:
    """Yields a fault for each option that a built-in driver does not have.

    Other drivers check their options themselves.
    """
    for block in file.labelled("plugin"):
        if block.label is None:
            continue
        shape = OPTION_SHAPES.get(NOMADS_NAMES.get(block.label.text, block.label.text))
        if shape is None:
            continue
        for config in block.body.blocks("config"):
            for problem in option_problems(plain_value(config), shape):
                place = _position(config, problem.path)
                text = f'plugin "{block.label.text}": {problem.message}'
                yield Fault(place, text)


def plugin_warnings(names: Iterable[str], places: Mapping[str, Position]) -> Iterator[str]:
    """Yields a warning for each `plugin` block that belongs to no driver or device of this
    machine; the agent that runs with it logs the same. `places` is by the path of a key."""
    known = known_plugins()
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.6)
            hint = f"; did you mean {quote(near[0])}?" if near else ""
            yield (
                f"{places[f'plugin.{name}']}: plugin {quote(name)} is no driver or device "
                f"of this machine{hint}"
            )


def _position(body: Hcl1Body, path: Sequence[str]) -> Position:
    """Where the key stands; the block's place for a key that cannot be found."""
    place = body.position
    for name in path:
        items = body.named(name)
        if not items:
            break
        place = items[0].position
        bodies = body.blocks(name)
        if not bodies:
            break
        body = bodies[0]
    return place
