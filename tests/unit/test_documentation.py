"""Tests that what docs/*.md and README.md name exists, and that their tables are complete."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

import click
import pytest
import yaml

from orchgit.cli.main import cli
from orchgit.gitops.rollouts.health import JobProgress
from orchgit.model.allocation import ClientStatus, DesiredStatus
from orchgit.model.deployment import DeploymentStatus
from orchgit.model.drift import DriftKind
from orchgit.model.evaluation import EvalStatus
from orchgit.model.job import JobStatus
from orchgit.model.node import NodeStatus
from orchgit.model.rollout import RolloutStatus
from orchgit.model.server import ServerState
from orchgit.model.source_health import HealthStatus

ROOT = Path(__file__).parents[2]
CODE = ("orchgit", "agent", "jobspec")
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
TOPS = ("orchgit/", "agent/", "jobspec/", "tests/", "docs/", "examples/")


def ids(path: Path) -> str:
    return path.name


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def quoted(text: str) -> Iterator[str]:
    """What stands in backticks outside of code blocks."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)
    return (found.group(1) for found in re.finditer(r"`([^`\n]+)`", prose))


def tables(text: str) -> Iterator[list[list[str]]]:
    """The cells of each table, without its head."""
    for found in re.finditer(r"(?:^\|.*\n)+", text, re.M):
        rows = [line.strip("|").split("|") for line in found.group().splitlines()]
        yield [[cell.strip() for cell in row] for row in rows[2:]]


@cache
def sources() -> dict[str, ast.Module]:
    paths = [path for top in CODE for path in (ROOT / top).rglob("*.py")]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


@cache
def attributes() -> dict[str, set[str]]:
    """By class name: all names that a class of that name defines, sets or inherits."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for tree in sources().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = own.setdefault(node.name, set())
                bases.setdefault(node.name, set()).update(
                    ast.unparse(base).rpartition(".")[2] for base in node.bases
                )
                for each in ast.walk(node):
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                        names.add(each.name)
                    elif isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self":
                        names.add(each.attr)
                    elif isinstance(each, ast.AnnAssign | ast.Assign):
                        targets = [each.target] if isinstance(each, ast.AnnAssign) else each.targets
                        names.update(ast.unparse(target) for target in targets)

    def with_bases(name: str) -> set[str]:
        return own.get(name, set()).union(*(with_bases(base) for base in bases.get(name, ())))

    return {name: with_bases(name) for name in own}


def exists(path: str) -> bool:
    """Whether a path of the project, or one below `orchgit/` or `docs/`, is there."""
    return any(
        any((ROOT / top).glob(path.rstrip("/"))) for top in ("", "orchgit", "docs", "orchgit/api")
    )


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_documented_path_exists(page: Path) -> None:
    known = {Path(path).name for path in sources()} | {p.name for p in (ROOT / "tests").rglob("*")}
    named = [each.rstrip("/.") for each in quoted(page.read_text()) if " " not in each]
    paths = [each for each in named if each.startswith(TOPS) or each.endswith((".py", ".md"))]
    plain = [each for each in paths if re.fullmatch(r"[\w./*-]+", each)]
    missing = [
        each
        for each in plain
        if not (exists(each) if "/" in each else each in known or exists(each))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_link_target_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@cache
def importable() -> frozenset[str]:
    """Returns the dotted paths of all modules and packages and of what they define at the top."""
    names = set()
    for path, tree in sources().items():
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        names.add(module)
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(f"{module}.{node.name}")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names.update(f"{module}.{ast.unparse(target)}" for target in targets)
    return frozenset(names)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_documented_module_exists(page: Path) -> None:
    others = {name for name, _ in documented_metrics()} | {"orchgit.example", "orchgit.hcl"}
    named = re.findall(r"`(?:python -m )?((?:orchgit|agent|jobspec)(?:\.\w+)+)", page.read_text())
    assert [each for each in named if each not in importable() | others] == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_documented_method_exists(page: Path) -> None:
    named = [
        found.groups()
        for each in quoted(page.read_text())
        if (found := re.fullmatch(r"([A-Z]\w+)\.([a-z_]\w*)(?:\(.*\))?", each))
    ]
    missing = [
        f"{owner}.{name}" for owner, name in named if name not in attributes().get(owner, set())
    ]
    assert missing == []


STATES = {
    "Evaluations": [EvalStatus],
    "Allocations": [DesiredStatus, ClientStatus],
    "Deployments": [DeploymentStatus],
    "Rollouts": [RolloutStatus, JobProgress],
    "Sources": [HealthStatus],
    "Drifted jobs": [DriftKind],
    "Jobs": [JobStatus],
    "Nodes": [NodeStatus],
    "Servers": [ServerState],
}


@pytest.mark.parametrize("section", STATES)
def test_lifecycle_documents_exactly_the_states(section: str) -> None:
    text = text_of("lifecycle.md")
    part = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    assert part is not None
    documented = [
        sorted(name for row in table for name in re.findall(r"`([^`]+)`", row[0]))
        for table in tables(part.group(1))
    ]
    assert documented == [sorted(states) for states in STATES[section]]


def test_states_that_are_never_set_are_marked() -> None:
    """A member of these enumerations that the code names nowhere else cannot be reached."""
    used = {
        f"{node.value.id}.{node.attr}"
        for tree in sources().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    unused = {
        f"{kind.__name__} {member.value}"
        for kinds in STATES.values()
        for kind in kinds
        for member in kind.__members__.values()
        if f"{kind.__name__}.{member.name}" not in used and kind is not JobProgress
    }
    rows = {
        f"{kind} {row[0].strip('`')}"
        for section, kinds in STATES.items()
        for kind, table in zip(kinds_names(kinds), section_tables(section), strict=True)
        for row in table
        if row[1].startswith("never set")
    }
    assert unused - rows == set()


def kinds_names(kinds: list[type[StrEnum]]) -> list[str]:
    return [kind.__name__ for kind in kinds]


def section_tables(section: str) -> list[list[list[str]]]:
    part = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text_of("lifecycle.md"), re.S | re.M)
    assert part is not None
    return list(tables(part.group(1)))


# -- imports


def test_documented_layers_equal_the_import_contract() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    layers = "\n".join(tools["importlinter"]["contracts"][0]["layers"])
    assert f"```\n{layers}\n```" in text_of("architecture.md")


# -- metrics


def documented_metrics() -> list[tuple[str, str]]:
    [table] = [
        table for table in tables(text_of("metrics.md")) if table and "nomad_raft" in table[0][1]
    ]
    return [(row[0].strip("`"), row[1].strip("`")) for row in table]


@cache
def emitted_metrics() -> list[str]:
    """As patterns: what stands in braces of an f-string is any name."""
    return [
        "".join(
            re.escape(part.value) if isinstance(part, ast.Constant) else r"\w+"
            for part in (name.values if isinstance(name, ast.JoinedStr) else [name])
        )
        for tree in sources().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args
        if ast.unparse(node.func) in ("Gauge", "Counter", "Histogram", "_counted")
        if isinstance(name := node.args[0], ast.JoinedStr | ast.Constant)
    ]


def test_documented_metrics_equal_the_emitted_ones() -> None:
    names = [name for name, _ in documented_metrics()]
    patterns = [*emitted_metrics(), r"nomad\.http\.request", r"nomad\.http\.request\.count"]
    assert [name for name in names if not any(re.fullmatch(p, name) for p in patterns)] == []
    assert [p for p in patterns if not any(re.fullmatch(p, name) for name in names)] == []


# -- commands


def commands(text: str) -> Iterator[list[str]]:
    """The words of each `orchgit ...` in backticks and in code blocks."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines()]
    for line in [*lines, *quoted(text)]:
        found = re.match(r"\s*(?:\.venv/bin/)?orchgit ([a-z].*)", line)
        if found:
            yield shlex.split(re.split(r" *(?:[|;#>]|&&)", found.group(1))[0].replace("...", ""))


def check_command(words: list[str]) -> str | None:
    """Returns what is wrong with the words of one command."""
    command: click.Command = cli
    context = click.Context(cli, **cli.context_settings)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        following = command.get_command(context, words[0])
        if following is None:
            return f"{words[0]} is no command"
        command, words = following, words[1:]
    options = {name for each in command.params for name in each.opts + each.secondary_opts}
    options.update(context.help_option_names)  # of every command
    asked = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return next((f"{word} is no option" for word in asked if word not in options), None)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_documented_command_exists(page: Path) -> None:
    found = [(words, check_command(words)) for words in commands(page.read_text())]
    assert [(" ".join(words), problem) for words, problem in found if problem] == []


# -- dependencies


def test_documented_dependencies_are_complete_and_imported_where_documented() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[<>=]", each)[0] for each in project["dependencies"]}
    [table] = [
        table
        for table in tables(text_of("architecture.md"))
        if table and table[0][0].strip("`") in wanted
    ]
    rows = {row[0].strip("`"): re.findall(r"`([^`]+)`", row[1]) for row in table}
    assert set(rows) == wanted
    importers: dict[str, set[str]] = {}
    for path, tree in sources().items():
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                importers.setdefault(name.partition(".")[0], set()).add(path)
    modules = {
        "backports.zstd": "backports",
        "google-re2": "re2",
        "grpcio": "grpc",
        "prometheus-client": "prometheus_client",
        "python-hcl2": "hcl2",
        "pyyaml": "yaml",
        "sqlite-utils": "sqlite_utils",
    }
    for name, doors in rows.items():
        paths = importers.get(modules.get(name, name), set())
        if doors:
            outside = {path for path in paths if not path.startswith(tuple(doors))}
            assert outside == set(), name
            unused = [door for door in doors if not any(path.startswith(door) for path in paths)]
            assert unused == [], name


# -- alert rules

RULES = yaml.safe_load((ROOT / "docs" / "alerts" / "orchgit.rules.yml").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
_WORDS_OF_PROMQL = {
    *("avg", "by", "histogram_quantile", "increase", "max", "on", "rate", "delta", "sum", "unless"),
    *(
        "client_status",
        "exported_job",
        "instance",
        "le",
        "namespace",
        "node_id",
        "source",
        "status",
        "task",
    ),
    "task_group",
}


def unknown_metrics(expression: str) -> list[str]:
    """Returns the names of a PromQL expression that no code emits; it names at least one."""
    patterns = [each.replace(r"\.", "_") for each in emitted_metrics()]
    plain = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
    names = set(re.findall(r"\b[a-z]\w+", plain)) - _WORDS_OF_PROMQL
    assert names, expression
    bare = {name: re.sub(r"_(bucket|sum|count|total)$", "", name) for name in names}
    return [
        name
        for name in names
        if not any(re.fullmatch(p, one) for p in patterns for one in (name, bare[name]))
    ]


def test_every_metric_of_the_alert_rules_is_emitted() -> None:
    assert {rule["alert"]: unknown_metrics(rule["expr"]) for rule in ALERTS} == {
        rule["alert"]: [] for rule in ALERTS
    }


def test_every_query_of_the_dashboard_names_emitted_metrics() -> None:
    dashboard = json.loads((ROOT / "docs" / "monitoring" / "orchgit-dashboard.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) > 40
    assert {query: unknown_metrics(query) for query in queries} == {query: [] for query in queries}
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_every_alert_is_complete_and_documented() -> None:
    for rule in ALERTS:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["expr"].count("(") == rule["expr"].count(")")
        described = re.sub(r"{{.*?}}", "NAME", rule["annotations"]["description"])
        assert [check_command(words) for words in commands(described)] == [None] * (
            described.count("`") // 2
        )
    documented = re.findall(r"^\| `(Orchgit\w+)` \|", text_of("metrics.md"), re.M)
    assert sorted(documented) == sorted(rule["alert"] for rule in ALERTS)
