"""Which functions of a package a coroutine calls on the event loop, read from its source.

A function that is handed to a thread (`asyncio.to_thread(work, ...)`) is not called there, so it is
not followed. Names are resolved as far as the source tells: functions of the module, imported
ones, methods of the same class, and methods whose name only a few classes of the package have.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MAX_NAMESAKES = 3

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class _Module:
    name: str
    functions: dict[str, str] = field(default_factory=dict)
    """Names of functions and imported names -> qualified names."""


@dataclass
class CallGraph:
    """`calls` are (qualified name, as the source writes it) by the caller's qualified name."""

    functions: dict[str, Function] = field(default_factory=dict)
    calls: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))

    def paths_on_the_loop(self, is_slow: set[str]) -> Iterator[tuple[str, ...]]:
        """Yields the shortest chain of calls from each coroutine to each slow call of it."""
        for start, function in self.functions.items():
            if isinstance(function, ast.AsyncFunctionDef):
                yield from self._slow_chains(start, is_slow)

    def _slow_chains(self, start: str, is_slow: set[str]) -> Iterator[tuple[str, ...]]:
        chains, seen = [(start,)], {start}
        for chain in chains:
            for target, written in self.calls[chain[-1]]:
                if written in is_slow or target in is_slow:
                    yield (*chain, written)
                elif target in self.functions and target not in seen:
                    seen.add(target)
                    if not isinstance(self.functions[target], ast.AsyncFunctionDef):
                        chains.append((*chain, target))


def read_call_graph(root: Path, package: str) -> CallGraph:
    """The graph of all modules of `package` below `root`."""
    graph = CallGraph()
    trees = {
        ".".join(path.relative_to(root).with_suffix("").parts): ast.parse(path.read_text())
        for path in sorted((root / package).rglob("*.py"))
    }
    methods: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees.items():
        for name, function in _functions(tree):
            graph.functions[f"{module}.{name}"] = function
            if "." in name:
                methods[name.rpartition(".")[2]].append(f"{module}.{name}")
    for module, tree in trees.items():
        imported = _imports(tree)
        for name, function in _functions(tree):
            caller = f"{module}.{name}"
            for call in _own_calls(function):
                written = _written(call.func)
                for target in _targets(written, caller, module, imported, graph, methods):
                    graph.calls[caller].append((target, written))
    return graph


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _functions(node, prefix)


def _own_calls(function: Function) -> Iterator[ast.Call]:
    """The calls of a function's body, not those of a lambda or of an inner function."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)


def _written(node: ast.expr) -> str:
    """The dotted name of what is called; what is no name in front of it is left out."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{_written(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def _imports(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return found


def _targets(
    written: str,
    caller: str,
    module: str,
    imported: dict[str, str],
    graph: CallGraph,
    methods: dict[str, list[str]],
) -> list[str]:
    first, dot, rest = written.partition(".")
    if not dot:
        name = imported.get(first, f"{module}.{first}")
        return [f"{name}.__init__" if f"{name}.__init__" in graph.functions else name]
    if first == "self" and "." not in rest:
        own = f"{caller.rpartition('.')[0]}.{rest}"
        if own in graph.functions:
            return [own]
    if first in imported:
        return [f"{imported[first]}.{rest}"]
    named = methods[written.rpartition(".")[2]]
    return named if 0 < len(named) <= _MAX_NAMESAKES else [written]
