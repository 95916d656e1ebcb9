"""No option of a command is accepted and then not read: the declared options are compared with what
the source of the commands reads."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import orchgit.cli
from orchgit.cli.commands.monitor import monitor
from tests.support.strange_answers import COMMANDS

FOLDER = Path(orchgit.cli.__file__).parent
DECLARED = {**COMMANDS, "orchgit monitor": monitor}
"""Commands that are no group, and the one group that does something by itself."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def reads_by_class() -> dict[str, set[str]]:
    """Name of a class -> attributes that are read of values of it.

    Values are known by the annotations of parameters and fields, and as `self`.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name] |= attributes_of(node, "self")
                for field in node.body:
                    if isinstance(field, ast.AnnAssign):
                        name = ast.unparse(field.target)
                        found[ast.unparse(field.annotation)] |= attributes_of(node, f"self.{name}")
            elif isinstance(node, ast.FunctionDef):
                for each in (*node.args.args, *node.args.kwonlyargs):
                    if each.annotation is not None:
                        kind = ast.unparse(each.annotation).removesuffix(" | None")
                        found[kind] |= attributes_of(node, each.arg)
    return found


def attributes_of(node: ast.AST, base: str) -> set[str]:
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Load)
        and ast.unparse(each.value) == base
    }


def names_read(function: ast.FunctionDef) -> set[str]:
    return {
        each.id
        for statement in function.body
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }


def unread(words: str) -> Iterator[str]:
    """Yields the arguments of a command that its function does not read."""
    callback = DECLARED[words].callback
    assert callback is not None
    function = inspect.unwrap(callback)
    module = sys.modules[function.__module__]
    source = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(source, ast.FunctionDef)
    read = names_read(source)
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in read:
            yield name
        yield from unread_fields(module, str(parameter.annotation))


def unread_fields(module: ModuleType, annotation: str) -> Iterator[str]:
    """Yields the options of a struct of options that no code reads."""
    struct = getattr(module, annotation, None)
    if not (isinstance(struct, type) and dataclasses.is_dataclass(struct)):
        return
    read: set[str] = set().union(*(reads_by_class()[each.__name__] for each in struct.__mro__))
    for field in dataclasses.fields(struct):
        if "names" in field.metadata and field.name not in read:
            yield f"{annotation}.{field.name}"


@pytest.mark.parametrize("words", sorted(DECLARED))
def test_command_reads_every_option_that_it_declares(words: str) -> None:
    assert list(unread(words)) == []
