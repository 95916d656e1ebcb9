"""Replacing `${...}` in the strings of a job by values that only the node knows.

Names: `NOMAD_...` and other variables of the task's environment, `node.*`, `attr.*`, `meta.*`. A
name that is not known stays as it is written. The `config` of a driver is evaluated as HCL instead:
`agent/tasks/config_evaluation.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from orchgit.model.node import Node

_REFERENCE = re.compile(r"\$\{([^${}\s\"']+)\}")

T = TypeVar("T")


def node_names(node: Node, region: str) -> dict[str, str]:
    """Returns each `node.*`, `attr.*` and `meta.*` name of a node with its value."""
    names = {
        "node.unique.id": node.id,
        "node.unique.name": node.name,
        "node.datacenter": node.datacenter,
        "node.region": region,
        "node.class": node.node_class,
        "node.pool": node.node_pool,
    }
    names |= {f"attr.{name}": value for name, value in node.attributes.items()}
    names |= {f"meta.{name}": value for name, value in node.meta.items()}
    return names


class Interpolator:
    """Replaces references by a node's names and a task's environment."""

    def __init__(self, names: Mapping[str, str], env: Mapping[str, str]) -> None:
        self._names = names
        self._env = env

    @property
    def names(self) -> Mapping[str, str]:
        """The node's names: `attr.kernel.name`, `node.datacenter` and others."""
        return self._names

    def text(self, value: str) -> str:
        if "${" not in value:
            return value
        return _REFERENCE.sub(self._replace, value)

    @staticmethod
    def references(value: str) -> list[str]:
        """Returns the names that the text refers to."""
        return _REFERENCE.findall(value) if "${" in value else []

    def tree(self, value: T) -> T:
        """As `text`, for every string inside lists and maps, keys included."""
        return self._tree(value)  # type: ignore[return-value]

    def _tree(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._tree(item) for item in value]
        if isinstance(value, dict):
            return {self._tree(key): self._tree(item) for key, item in value.items()}
        return value

    def _replace(self, match: re.Match[str]) -> str:
        name = match.group(1)
        if name in self._names:
            return self._names[name]
        return self._env.get(name, match.group(0))
