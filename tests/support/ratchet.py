"""Counts habits the code should lose; the check fails where a count rises above its figure.

Two counts are shares, which do not rise just because the code grows.

`python -m tests.support.ratchet` compares the counts with `ratchet.json`, `--write` lowers the
figures to today's counts, `--list KIND [PATH...]` prints what is counted below these paths.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FIGURES = Path("tests/support/ratchet.json")
CODE = ("orchgit", "jobspec", "agent")
MAX_PARAMETERS = 8
SHORT_LINES = 4
NAMED_TUPLE_METHODS = {"_replace", "_asdict", "_fields", "_make", "_field_defaults"}
OWN_OR_LIBRARY = {"self", "cls", "super()", "os", "sys"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Finding(NamedTuple):
    """One occurrence; two trees are compared by `name`, so that lines and files may move."""

    place: str
    name: str
    size: int = 1


@dataclass
class Module:
    """One parsed file, with each node's enclosing definitions."""

    path: str
    tree: ast.Module
    owners: dict[ast.AST, tuple[ast.AST, ...]] = field(default_factory=dict)
    calls: set[ast.AST] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._note(self.tree, ())

    def _note(self, node: ast.AST, owners: tuple[ast.AST, ...]) -> None:
        self.owners[node] = owners
        if isinstance(node, ast.Call):
            self.calls.add(node.func)
        inside = (*owners, node) if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else owners
        for child in ast.iter_child_nodes(node):
            self._note(child, inside)

    @property
    def is_code(self) -> bool:
        return self.path.startswith(CODE)

    @property
    def dotted(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def walk(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in self.owners if isinstance(node, kinds))

    def found(self, node: ast.AST, name: str, size: int = 1) -> Finding:
        owners = ".".join(owner.name for owner in self.owners[node])  # type: ignore[attr-defined]
        return Finding(f"{self.path}:{node.lineno}", f"{owners}: {name}".lstrip(": "), size)  # type: ignore[attr-defined]


@dataclass
class Tree:
    """All modules of one version of the project."""

    modules: list[Module]

    @classmethod
    def of_texts(cls, texts: dict[str, str]) -> Tree:
        return cls([Module(path, ast.parse(text)) for path, text in sorted(texts.items())])

    @classmethod
    def here(cls) -> Tree:
        paths = [p for top in (*CODE, "tests") for p in (ROOT / top).rglob("*.py")]
        return cls.of_texts({str(path.relative_to(ROOT)): path.read_text() for path in paths})

    @classmethod
    def at(cls, commit: str) -> Tree:
        """Reads the tree of `commit`; raises CalledProcessError where git does not have it."""
        command = ["git", "archive", commit, *CODE, "tests"]
        packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            texts = {
                member.name: stream.read().decode()
                for member in archive
                if member.name.endswith(".py") and (stream := archive.extractfile(member))
            }
        return cls.of_texts(texts)

    @property
    def code(self) -> list[Module]:
        return [module for module in self.modules if module.is_code]

    @property
    def tests(self) -> list[Module]:
        return [module for module in self.modules if not module.is_code]


def sleeps(tree: Tree) -> Iterator[Finding]:
    """Tests that wait for time to pass: time.sleep, asyncio.sleep (not of 0), the command sleep."""
    for module in tree.tests:
        for call in module.walk(ast.Call):
            assert isinstance(call, ast.Call)
            text = ast.unparse(call.func)
            first = call.args[0] if call.args else None
            yields = isinstance(first, ast.Constant) and first.value == 0
            if text in ("time.sleep", "asyncio.sleep", "sleep") and not yields:
                yield module.found(call, ast.unparse(call))
            elif text in ("subprocess.run", "subprocess.call", "subprocess.check_call"):
                waits = first is not None and ast.unparse(first).startswith("['sleep'")
                if waits:
                    yield module.found(call, ast.unparse(call))


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE_METHODS


def _is_of_own_class(module: Module, node: ast.Attribute) -> bool:
    """Returns whether the object is seen to be of the class whose method reaches into it.

    It is a parameter that is annotated so, a copy of `self`, or made by the class or by one of its
    methods that says so.
    """
    owners = module.owners[node]
    depths = [depth for depth, each in enumerate(owners) if isinstance(each, ast.ClassDef)]
    if not depths or len(owners) == depths[-1] + 1 or not isinstance(node.value, ast.Name):
        return False
    own, method = owners[depths[-1]], owners[depths[-1] + 1]
    assert isinstance(own, ast.ClassDef)
    own_names = (own.name, "Self")
    results = {
        each.name: ast.unparse(each.returns).strip("'")
        for each in own.body
        if isinstance(each, FUNCTIONS) and each.returns
    }

    def makes_one(value: ast.expr) -> bool:
        call = value.value if isinstance(value, ast.Await) else value
        if not isinstance(call, ast.Call):
            return False
        called = ast.unparse(call.func)
        first, _, rest = called.partition(".")
        return (
            called in ("cls", "type(self)", own.name)
            or (first in ("self", "cls", own.name) and results.get(rest) in own_names)
            or (called in ("copy", "copy.copy") and ast.unparse(call.args[0]) == "self")
        )

    name = node.value.id
    return any(
        makes_one(each.value)
        if isinstance(each, ast.Assign)
        else isinstance(each, ast.arg)
        and each.annotation is not None
        and each.arg == name
        and ast.unparse(each.annotation).strip("'") in own_names
        for each in ast.walk(method)
        if not isinstance(each, ast.Assign) or name in map(ast.unparse, each.targets)
    )


def _privates(modules: list[Module]) -> Iterator[Finding]:
    for module in modules:
        for node in module.walk(ast.Attribute):
            assert isinstance(node, ast.Attribute)
            owner = ast.unparse(node.value)
            is_own = owner in OWN_OR_LIBRARY or _is_of_own_class(module, node)
            if _private(node.attr) and not is_own:
                yield module.found(node, f"{owner}.{node.attr}")
        for node in module.walk(ast.ImportFrom):
            assert isinstance(node, ast.ImportFrom)
            for alias in node.names:
                if _private(alias.name) and not (node.module or "").startswith("_"):
                    yield module.found(node, f"{node.module}.{alias.name}")


def code_privates(tree: Tree) -> Iterator[Finding]:
    """Code that reaches into a private attribute of an object of another class, or of a module."""
    return _privates(tree.code)


def test_privates(tree: Tree) -> Iterator[Finding]:
    """Tests that reach into a private attribute of an object of another class, or of a module."""
    return _privates(tree.tests)


def patches(tree: Tree) -> Iterator[Finding]:
    """Tests that replace a part of something they did not make."""
    for module in tree.tests:
        names = {
            alias.asname or alias.name
            for node in module.tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        for node in module.walk(ast.Call, ast.ImportFrom, ast.Import, ast.Assign):
            text = ast.unparse(node)
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                replaces = called == "setattr" and ast.unparse(node.args[0]) in names
                if replaces or called.endswith((".setattr", "patch.delattr", "patch.setitem")):
                    yield module.found(node, text)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                if "unittest.mock" in text or "unittest import mock" in text:
                    yield module.found(node, text)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and ast.unparse(target.value) in names:
                        yield module.found(node, text)


@dataclass
class Helper:
    """A private function of the code whose only mention is one call of it."""

    module: Module
    node: Function
    caller: ast.AST | None

    @property
    def lines(self) -> int:
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1


def helpers(tree: Tree) -> list[Helper]:
    """Finds the private functions without a decorator that are mentioned once, in a call.

    A method is looked for in its own class first, then in its module, then in all of the code
    (where a base class of another module calls it); a function that calls itself is left out.
    """
    everywhere: dict[str, list[tuple[Module, ast.AST]]] = defaultdict(list)
    for module in tree.code:
        for node in module.walk(ast.Name, ast.Attribute):
            if isinstance(getattr(node, "ctx", None), ast.Load):
                name = node.id if isinstance(node, ast.Name) else node.attr  # type: ignore[attr-defined]
                if _private(name):
                    everywhere[name].append((module, node))
    found = []
    for module in tree.code:
        for node in module.walk(*FUNCTIONS):
            assert isinstance(node, FUNCTIONS)
            if not _private(node.name) or node.decorator_list:
                continue
            mentions = everywhere[node.name]
            here = [each for where, each in mentions if where is module]
            own = [each for each in here if set(module.owners[node]) <= set(module.owners[each])]
            uses = own or here or [each for _, each in mentions]
            if len(uses) != 1:
                continue
            where = next(where for where, each in mentions if each is uses[0])
            owners = where.owners[uses[0]]
            if uses[0] in where.calls and node not in owners:
                caller = next(
                    (each for each in reversed(owners) if isinstance(each, FUNCTIONS)), None
                )
                found.append(Helper(module, node, caller))
    return found


def single_use(tree: Tree) -> Iterator[Finding]:
    """Private functions with one call and no other mention."""
    for helper in helpers(tree):
        name = f"{helper.node.name} ({helper.lines} lines)"
        yield helper.module.found(helper.node, name, helper.lines)


def single_use_short(tree: Tree) -> Iterator[Finding]:
    """Private functions of at most four lines with one call and no other mention."""
    return (found for found in single_use(tree) if found.size <= SHORT_LINES)


def chains(tree: Tree) -> Iterator[Finding]:
    """Chains of private functions with one call each; size: how many functions they pass."""
    by_node = {helper.node: helper for helper in helpers(tree)}
    called = {helper.caller for helper in by_node.values()}
    for helper in by_node.values():
        if helper.node in called:
            continue
        names, at = [helper.node.name], helper.caller
        while at in by_node:
            names.append(by_node[at].node.name)  # type: ignore[index]
            at = by_node[at].caller  # type: ignore[index]
        start = getattr(at, "name", "module")
        story = " -> ".join([start, *reversed(names)])
        yield helper.module.found(helper.node, story, len(names))


def parameters(tree: Tree) -> Iterator[Finding]:
    """Functions of the code and of tests/support with more than eight parameters besides `self`."""
    for module in tree.modules:
        if module.is_code or "/support/" in module.path:
            for node in module.walk(*FUNCTIONS):
                assert isinstance(node, FUNCTIONS)
                given = node.args
                names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
                count = len([name for name in names if name not in ("self", "cls")])
                if count > MAX_PARAMETERS:
                    yield module.found(node, f"{node.name} ({count} parameters)", count)


def star_calls(tree: Tree) -> Iterator[Finding]:
    """Calls that hide positional arguments in a tuple that is written out there.

    Functions that take any number of arguments are left out, as are generators that are passed to
    functions of a library (`asyncio.gather`).
    """
    variadic = {
        node.name
        for module in tree.code
        for node in module.walk(*FUNCTIONS)
        if isinstance(node, FUNCTIONS) and node.args.vararg is not None
    }
    classes = {
        node.name
        for module in tree.code
        for node in module.walk(ast.ClassDef)
        if isinstance(node, ast.ClassDef)
    }
    for module in tree.code:
        for call in module.walk(ast.Call):
            assert isinstance(call, ast.Call)
            name = ast.unparse(call.func).rpartition(".")[2]
            starred = [each.value for each in call.args if isinstance(each, ast.Starred)]
            kinds = (ast.Tuple, ast.GeneratorExp) if name in classes else (ast.Tuple,)
            if name not in variadic and any(isinstance(each, kinds) for each in starred):
                yield module.found(call, ast.unparse(call))


def collisions(tree: Tree) -> Iterator[Finding]:
    """Public class names of the code that stand for several things."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in tree.code:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.path}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield Finding(" ".join(found), name)


def methods(tree: Tree) -> Iterator[Finding]:
    """Classes of the code; size: how many methods they have with those of their bases."""
    classes = {
        f"{module.dotted}.{node.name}": (module, node)
        for module in tree.code
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }

    def names_in(module: Module) -> dict[str, str]:
        names = {key.rpartition(".")[2]: key for key in classes if classes[key][0] is module}
        for node in module.walk(ast.ImportFrom):
            for alias in node.names:  # type: ignore[attr-defined]
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"  # type: ignore[attr-defined]
        for node in module.walk(ast.Import):
            for alias in node.names:  # type: ignore[attr-defined]
                names[alias.asname or alias.name] = alias.name
        return names

    names = {module.path: names_in(module) for module in tree.code}

    def flattened(key: str) -> set[str]:
        if key not in classes:
            return set()
        module, node = classes[key]
        own = {each.name for each in node.body if isinstance(each, FUNCTIONS)}
        for base in node.bases:
            top = base.value if isinstance(base, ast.Subscript) else base
            first, dot, rest = ast.unparse(top).partition(".")
            own |= flattened(names[module.path].get(first, first) + dot + rest)
        return own

    for key, (module, node) in classes.items():
        count = len(flattened(key))
        yield module.found(node, f"{node.name} ({count} methods)", count)


class Measure(NamedTuple):
    """One figure: what is found, what to do about it, and what counts: how many are found, the
    largest, or how many there are among 10,000 functions of the code."""

    find: Callable[[Tree], Iterator[Finding]]
    advice: str
    largest: bool = False
    share: bool = False


MEASURES = {
    "sleeps": Measure(sleeps, "wait for an index or an event, or move a FakeClock"),
    "privates-in-tests": Measure(test_privates, "give the object a public seam"),
    "privates-in-code": Measure(code_privates, "give the object a public method"),
    "patches": Measure(patches, "pass the part in instead of replacing it"),
    "single-use": Measure(
        single_use, "move it into its caller, or let it name an idea", share=True
    ),
    "single-use-short": Measure(single_use_short, "move its lines into its caller", share=True),
    "parameters": Measure(parameters, "pass one struct of settings or of collaborators"),
    "star-calls": Measure(star_calls, "name the arguments, or pass one struct"),
    "collisions": Measure(collisions, "give each thing its own name"),
    "methods": Measure(methods, "divide the object into parts with own state", largest=True),
    "chain": Measure(chains, "join the steps that name no idea", largest=True),
}


def count_of(measure: Measure, found: list[Finding]) -> int:
    return max((each.size for each in found), default=0) if measure.largest else len(found)


def figure_of(tree: Tree, measure: Measure, found: list[Finding]) -> int:
    """Returns what is compared with the figure of `ratchet.json`."""
    count = count_of(measure, found)
    if not measure.share:
        return count
    code = (module for module in tree.modules if module.is_code)
    functions = sum(1 for module in code for _ in module.walk(*FUNCTIONS))
    return round(10_000 * count / max(functions, 1))


def listing(found: list[Finding], limit: int) -> str:
    ordered = sorted(found, key=lambda each: (-each.size, each.place, each.name))
    lines = [f"    {each.place}  {each.name}" for each in ordered[:limit]]
    rest = [f"    and {len(found) - limit} more"] if len(found) > limit else []
    return "\n".join([*lines, *rest])


def baseline() -> Tree | None:
    """Reads the tree of the commit that last changed the figures; None without the history."""
    command = ["git", "log", "-1", "--format=%H", "--", str(FIGURES)]
    try:
        commit = subprocess.run(
            command, cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout
        return Tree.at(commit.strip()) if commit.strip() else None
    except (OSError, subprocess.CalledProcessError):
        return None


def new_since(
    before: Tree | None, measure: Measure, found: list[Finding], figure: int
) -> list[Finding]:
    """Returns the findings that `before` does not have, or the largest above the figure."""
    if measure.largest:
        return [each for each in found if each.size > figure]
    if before is None:
        return found
    known = Counter(each.name for each in measure.find(before))
    new = []
    for each in found:
        known[each.name] -= 1
        if known[each.name] < 0:
            new.append(each)
    return new


def compare(tree: Tree, figures: dict[str, int], committed: Callable[[], Tree | None]) -> int:
    """Prints every count beside its figure; returns 1 where one is higher, else 0.

    `committed` gives the tree that new findings are told from; it is read where a count is higher.
    """
    higher, lower, before = [], [], None
    print("ratchet (count, figure):")
    for kind, measure in MEASURES.items():
        found = list(measure.find(tree))
        count, figure = figure_of(tree, measure, found), figures[kind]
        print(f"  {count:5d} {figure:5d}  {kind}")
        if count > figure:
            before = before or (None if measure.largest else committed())
            new = new_since(before, measure, found, figure)
            higher.append(
                f"{kind} rose from {figure} to {count}. {measure.find.__doc__} "
                f"To do: {measure.advice}. New:\n{listing(new, 40)}"
            )
        elif count < figure:
            lower.append(kind)
    if lower:
        print(
            f"lower than the figures: {', '.join(lower)}; lower them: "
            "python -m tests.support.ratchet --write"
        )
    for text in higher:
        print(text, file=sys.stderr)
    return 1 if higher else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="lower the figures to today's counts")
    parser.add_argument("--list", choices=MEASURES, help="print what is counted")
    parser.add_argument("paths", nargs="*", help="with --list: only below these paths")
    given = parser.parse_args()
    tree = Tree.here()
    if given.list:
        found = [
            each
            for each in MEASURES[given.list].find(tree)
            if not given.paths or any(each.place.startswith(path) for path in given.paths)
        ]
        print(f"{given.list}: {len(found)}\n{listing(found, len(found))}")
        return 0
    path = ROOT / FIGURES
    figures = json.loads(path.read_text()) if path.exists() else {}
    if given.write:
        for kind, measure in MEASURES.items():
            count = figure_of(tree, measure, list(measure.find(tree)))
            figures[kind] = min(count, figures.get(kind, count))
        path.write_text(json.dumps({kind: figures[kind] for kind in MEASURES}, indent=1) + "\n")
    return compare(tree, figures, baseline)


if __name__ == "__main__":
    sys.exit(main())
