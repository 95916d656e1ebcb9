"""Runs a directory of recorded job files (see its README) and ends with `N passed, N failed`.

    python tests/scenarios/run_jobspec_golden.py tests/golden/jobspec

Valid files must give the recorded tree, canonical ones the recorded defaults, invalid ones a
problem at each recorded place, validate cases the recorded texts, expressions their type and value
or the place of their error, and syntax probes the recorded verdict.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from jobspec.canonicalize import canonicalize, to_job
from jobspec.errors import Diagnostics, HclError, JobFileErrors, SourceText, problem_at
from jobspec.evaluation import numbers
from jobspec.evaluation.evaluate import Scope, evaluate
from jobspec.evaluation.values import type_name, type_of
from jobspec.files import CurrentDirectory
from jobspec.functions import json_text
from jobspec.functions.call import caller
from jobspec.functions.signature import CallContext, FunctionError
from jobspec.hcl.parser import parse_body, parse_expression
from jobspec.parse import ParsedJob, parse_job
from jobspec.validate import ClusterFacts, validate_job

Case = tuple[str, Callable[[], str | None]]
"""A name, and what runs it: returns what is wrong, or None."""

CLUSTER = ClusterFacts(namespaces=frozenset({"default"}), node_pools=frozenset({"default", "all"}))
_PLACE = re.compile(r"(?m)^(?:unable to parse var file: )?(<value[^>]*>|[\w.-]+):(\d+),(\d+)-")
_NAMED = re.compile(r'"([^"\s]+)"')


def cases(root: Path) -> list[Case]:
    """Everything in a directory of recorded cases; run them inside `at(root)`."""
    kinds: list[tuple[str, str, Callable[[Path], str | None]]] = [
        ("", "*.nomad.hcl", _valid),
        ("canonical/", "*.json", _canonical),
        ("invalid/", "*.nomad.hcl", _invalid),
        ("validate/", "*.json", _validate),
    ]
    found: list[Case] = [
        (folder + path.name, partial(run, path))
        for folder, pattern, run in kinds
        for path in sorted((root / folder).glob(pattern))
    ]
    found += _expression_cases(root / "expressions.jsonl")
    found += _probe_cases(root / "syntax-probes.json")
    return found


@contextmanager
def at(root: Path) -> Iterator[None]:
    """The file functions of the recorded cases are relative to their directory."""
    before = Path.cwd()
    os.chdir(root)
    try:
        yield
    finally:
        os.chdir(before)


def _base(path: Path) -> str:
    return path.name.removesuffix(".nomad.hcl")


def _inputs(stem: Path, files: bool = False) -> dict[str, Any]:
    """Variables, var-file and environment recorded beside a job file."""
    inputs: dict[str, Any] = {"files": CurrentDirectory()}
    var_file = stem.with_name(stem.name + ".vars.hcl")
    if var_file.exists():
        inputs["var_files"] = [(var_file.name, var_file.read_bytes())]
    if files:
        return inputs
    arguments = stem.with_name(stem.name + ".vars.json")
    if arguments.exists():
        inputs["variables"] = dict(a.split("=", 1) for a in json.loads(arguments.read_text()))
    env = stem.with_name(stem.name + ".env.json")
    if env.exists():
        inputs["env"] = json.loads(env.read_text())
    return inputs


def _parse(stem: Path, **inputs: Any) -> ParsedJob:
    path = stem.with_name(stem.name + ".nomad.hcl")
    return parse_job(path.read_bytes(), filename=path.name, **inputs)


def _valid(path: Path) -> str | None:
    stem = path.with_name(_base(path))
    want = json.loads(path.with_name(f"{stem.name}.json").read_text())["Job"]
    return tree_difference(_parse(stem, **_inputs(stem)).spec, want)


def _canonical(path: Path) -> str | None:
    want = json.loads(path.read_text())
    stem = path.parent.parent / path.stem
    return tree_difference(canonicalize(_parse(stem, **_inputs(stem, files=True)).spec), want)


def _invalid(path: Path) -> str | None:
    text = path.with_name(f"{_base(path)}.err").read_text().partition("\n")[2]
    stem = path.with_name(_base(path))
    try:
        _parse(stem, **_inputs(stem))
    except JobFileErrors as errors:
        return _missing_places(text, errors)
    return "accepted"


def _missing_places(text: str, errors: JobFileErrors) -> str | None:
    have = {(p.file, p.line, p.column) for p in errors.details}
    for name, line, column in _PLACE.findall(text):
        if line != "0" and (name, int(line), int(column)) not in have:
            return f"nothing at {name}:{line}:{column}, only {errors.problems}"
    if not _PLACE.search(text):
        names = set(_NAMED.findall(text))
        if names and not any(name in problem for problem in errors.problems for name in names):
            return f"names none of {sorted(names)}: {errors.problems}"
    return None


def _validate(path: Path) -> str | None:
    recorded = json.loads(path.read_text())
    stem = path.with_name(path.stem)
    result = validate_job(to_job(_parse(stem, **_inputs(stem)).spec), CLUSTER)
    answer = recorded["api"]
    want = (answer["ValidationErrors"], answer["Error"], answer["Warnings"])
    got = (result.problems or None, result.error_text, result.warning_text)
    return None if got == want else f"got {got}, want {want}"


def _expression_cases(path: Path) -> list[Case]:
    lines = path.read_text().splitlines() if path.exists() else []
    recorded = [json.loads(line) for line in lines if line.strip()]
    return [(f"expression {case['src'][:60]}", partial(_expression, case)) for case in recorded]


def _expression(case: dict[str, Any]) -> str | None:
    source = SourceText("x", case["src"])
    calls = caller(CallContext(CurrentDirectory()))
    try:
        value = evaluate(
            parse_expression(source.text), Scope({}, source.text, calls, runtime=False)
        )
    except HclError as error:
        return _expression_error(case, problem_at(error, source))
    if not case["ok"]:
        return f"accepted, want {case['error']}"
    if type_name(type_of(value)) != case["type"]:
        return f"type {type_name(type_of(value))}, want {case['type']}"
    try:
        got = json.loads(json_text.encode(value))
    except FunctionError:
        return None if "value_error" in case else "cannot be written as JSON"
    return tree_difference(got, case.get("value"))


def _expression_error(case: dict[str, Any], problem: Any) -> str | None:
    if case["ok"]:
        return f"refused: {problem}"
    _, line, column = _PLACE.findall(case["error"])[0]
    if (problem.line, problem.column) != (int(line), int(column)):
        return f"error at {problem}, want {case['error']}"
    return None


def _probe_cases(path: Path) -> list[Case]:
    recorded = json.loads(path.read_text()) if path.exists() else []
    return [(f"probe {case['note']}", partial(_probe, case)) for case in recorded]


def _probe(case: dict[str, Any]) -> str | None:
    source = SourceText("x.hcl", case["src"])
    diagnostics = Diagnostics(source)
    parse_body(source, diagnostics)
    if bool(diagnostics.found) == bool(case["go_ok"]):
        return f"{[str(p) for p in diagnostics.found]}, want {case['go_error'] or 'no error'}"
    if not case["go_ok"]:
        _, line, column = _PLACE.findall(case["go_error"])[0]
        first = diagnostics.found[0]
        if (first.line, first.column) != (int(line), int(column)):
            return f"error at {first}, want {case['go_error']}"
    return None


def tree_difference(got: Any, want: Any, path: str = "") -> str | None:
    """Where two JSON trees first differ; numbers are compared as JSON has them, as doubles."""
    if isinstance(got, dict) and isinstance(want, dict):
        for key in {**got, **want}:
            if key not in got or key not in want:
                return f"{path}.{key} is {'missing' if key not in got else 'too much'}"
            found = tree_difference(got[key], want[key], f"{path}.{key}")
            if found is not None:
                return found
        return None
    if isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        pairs = enumerate(zip(got, want, strict=True))
        found_all = (tree_difference(g, w, f"{path}[{i}]") for i, (g, w) in pairs)
        return next((found for found in found_all if found is not None), None)
    if _is_number(got) and _is_number(want):
        same = got == want or numbers.to_float(got) == numbers.to_float(want)
    else:
        same = type(got) is type(want) and got == want
    return None if same else f"{path} is {got!r}, want {want!r}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def main(argv: list[str]) -> int:
    root = Path(argv[0]).resolve()
    passed = failed = 0
    with at(root):
        for name, run in cases(root):
            try:
                problem = run()
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem is None:
                passed += 1
            else:
                failed += 1
                print(f"FAILED {name}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
