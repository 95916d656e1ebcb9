"""The names that an expression may use, and how much work a file may make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jobspec.errors import HclError
from jobspec.hcl import tree
from jobspec.values import Value

MAX_ITERATIONS = 200_000
"""How many times the for-expressions and splats of one file may go round, all together."""


class SilentError(HclError):
    """A follow-up of a mistake that was reported already."""


class Poison:
    """Stands for a variable or local whose own mistake was reported."""


POISON = Poison()


class Scope:
    """Names that an expression may use, inner ones first; `calls` evaluates function calls."""

    __slots__ = ("calls", "names", "outer", "runtime", "text", "turns")

    def __init__(
        self,
        names: Mapping[Any, Value],
        text: str,
        calls: Callable[[tree.Call, Scope], Value],
        outer: Scope | None = None,
        runtime: bool = True,
    ) -> None:
        self.names = names
        self.text = text
        self.calls = calls
        self.outer = outer
        self.runtime = runtime
        self.turns: list[int] = [0] if outer is None else outer.turns

    def inner(self, names: Mapping[Any, Value]) -> Scope:
        return Scope(names, self.text, self.calls, self, self.runtime)

    def turn(self, node: tree.Node) -> None:
        """Count one iteration; raises HclError when there were too many in the file."""
        self.turns[0] += 1
        if self.turns[0] > MAX_ITERATIONS:
            message = f"Too many iterations: more than {MAX_ITERATIONS} in this file."
            raise HclError(message, node.start, node.end)

    def find(self, name: Any) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None
