"""What a function takes: its parameters, and the errors that point at one of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobspec.files import FileAccess
from jobspec.values import Type, Value


class FunctionError(Exception):
    """The call as a whole failed."""


class ArgumentError(FunctionError):
    """One argument is wrong."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    type: Type = "dynamic"
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a function may use beside its arguments."""

    files: FileAccess | None = None
    random_bytes: Callable[[int], bytes] = os.urandom


@dataclass(frozen=True, slots=True)
class Function:
    """`run` gets the converted arguments, after the context where `in_context`."""

    run: Callable[..., Value]
    params: tuple[Param, ...] = ()
    rest: Param | None = None
    in_context: bool = False


def text(name: str = "str") -> Param:
    return Param(name, "string")


def num(name: str = "num") -> Param:
    return Param(name, "number")


def any_value(name: str, nullable: bool = False) -> Param:
    return Param(name, "dynamic", nullable)


def list_of(name: str, element: Any = "dynamic") -> Param:
    return Param(name, ("list", element))
