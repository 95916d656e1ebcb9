"""The signature of a function: its parameters, and the errors that point at one of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jobspec.evaluation.budget import Budget
from jobspec.evaluation.values import Type, Value

if TYPE_CHECKING:
    from jobspec.files import FileAccess


class FunctionError(Exception):
    """The call as a whole failed."""


class ArgumentError(FunctionError):
    """One argument is wrong."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


class Param:
    __slots__ = ("name", "nullable", "type")

    def __init__(self, name: str, type_: Type = "dynamic", nullable: bool = False) -> None:
        self.name = name
        self.type = type_
        self.nullable = nullable


class CallContext:
    """What a function may use besides its arguments."""

    __slots__ = ("budget", "files", "random_bytes")

    def __init__(
        self,
        files: FileAccess | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
        budget: Budget | None = None,
    ) -> None:
        self.files = files
        self.random_bytes = random_bytes
        self.budget = budget or Budget()


class Function:
    """`run` gets the converted arguments, after the context where `in_context`."""

    __slots__ = ("in_context", "params", "rest", "run")

    def __init__(
        self,
        run: Callable[..., Value],
        params: tuple[Param, ...] = (),
        rest: Param | None = None,
        in_context: bool = False,
    ) -> None:
        self.run = run
        self.params = params
        self.rest = rest
        self.in_context = in_context


MAX_CHARACTERS = 4 * 1024 * 1024
MAX_ITEMS = 100_000


def check_length(characters: int) -> None:
    """Raises FunctionError for a result that would be too long, before it is built."""
    if characters > MAX_CHARACTERS:
        raise FunctionError(f"the result would be longer than {MAX_CHARACTERS} characters")


def text(name: str = "str") -> Param:
    return Param(name, "string")


def num(name: str = "num") -> Param:
    return Param(name, "number")


def any_value(name: str, nullable: bool = False) -> Param:
    return Param(name, "dynamic", nullable)


def list_of(name: str, element: Any = "dynamic") -> Param:
    return Param(name, ("list", element))
