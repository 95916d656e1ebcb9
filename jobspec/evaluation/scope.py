"""The names that an expression may use, and the budget that it may spend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jobspec.errors import HclError
from jobspec.evaluation.budget import Budget
from jobspec.evaluation.values import Value
from jobspec.hcl import tree


class SilentError(HclError):
    """A follow-up of a mistake that was reported already."""


class Poison:
    """Replaces a variable or local whose own mistake was reported."""


POISON = Poison()


class Scope:
    """Names that an expression may use, inner ones first; `calls` evaluates function calls."""

    __slots__ = ("budget", "calls", "names", "outer", "runtime", "text")

    def __init__(
        self,
        names: Mapping[Any, Value],
        text: str,
        calls: Callable[[tree.CallExpression, Scope], Value],
        outer: Scope | None = None,
        runtime: bool = True,
        budget: Budget | None = None,
    ) -> None:
        self.names = names
        self.text = text
        self.calls = calls
        self.outer = outer
        self.runtime = runtime
        self.budget = budget or Budget()

    def inner(self, names: Mapping[Any, Value]) -> Scope:
        return Scope(names, self.text, self.calls, self, self.runtime, self.budget)

    def find(self, name: Any) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None
