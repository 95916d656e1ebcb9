"""The writer: what it writes is read again as the same job, and reads well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobspec.canonicalize import canonicalize, to_job
from jobspec.errors import Diagnostics, SourceText
from jobspec.evaluation.evaluate import Scope, evaluate
from jobspec.functions.call import caller
from jobspec.functions.signature import CallContext
from jobspec.hcl.format import format_text
from jobspec.hcl.literals import normal
from jobspec.hcl.parser import parse_expression
from jobspec.hcl.writer import expression, string
from jobspec.parse import parse_job
from jobspec.writing.same_job import difference
from jobspec.writing.write_job import write_job
from orchgit.errors import InvalidInputError
from tests.scenarios.run_jobspec_golden import tree_difference

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "jobspec"
RECORDED = [
    path.with_name(path.name.replace(".nomad.hcl", ".json"))
    for path in sorted(GOLDEN.glob("*.nomad.hcl"))
]
CANONICAL = sorted((GOLDEN / "canonical").glob("*.json"))


def read(text: str) -> dict[str, Any]:
    return parse_job(text.encode(), filename="x.nomad.hcl").spec


def value_of(text: str) -> Any:
    scope = Scope({"var": {}, "local": {}}, text, caller(CallContext(None)))
    return evaluate(parse_expression(text), scope)


def minimal(**task: Any) -> dict[str, Any]:
    return {
        "ID": "j",
        "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d", **task}]}],
    }


@pytest.mark.parametrize("short", [True, False], ids=["short", "full"])
@pytest.mark.parametrize("path", [*RECORDED, *CANONICAL], ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_recorded_job_written_and_parsed_is_the_same(path: Path, short: bool) -> None:
    recorded = json.loads(path.read_text())
    spec = recorded.get("Job", recorded)
    text = write_job(spec, short)
    assert tree_difference(canonicalize(read(text)), canonicalize(spec)) is None
    diagnostics = Diagnostics(SourceText("x", text))
    assert format_text(diagnostics.source, diagnostics) == text


def test_example_job_written_and_parsed_is_the_same() -> None:
    paths = sorted((GOLDEN / "validate").glob("*.nomad.hcl"))
    assert len(paths) > 100
    for path in paths:
        spec = read(path.read_text())
        again = read(write_job(spec))
        assert tree_difference(canonicalize(again), canonicalize(spec)) is None, path.name
        answer = msgspec.to_builtins(to_job(spec))
        assert difference(answer, read(write_job(answer, exact=False))) == "", path.name


def test_defaults_are_left_out_and_what_differs_stays() -> None:
    short = write_job(canonicalize(minimal(KillTimeout=7_000_000_000)))
    assert short == (
        'job "j" {\n  type = "service"\n\n  group "g" {\n    count = 1\n\n    task "t" {\n'
        '      driver       = "d"\n      kill_timeout = "7s"\n    }\n  }\n}\n'
    )
    assert "healthy_deadline" in write_job(canonicalize(minimal()), short=False)


def test_typed_job_is_written_as_a_file() -> None:
    job = to_job(minimal())
    tree = msgspec.to_builtins(job)
    assert difference(tree, read(write_job(tree))) == ""


def test_difference_names_its_path() -> None:
    one, other = minimal(), minimal(User="root")
    assert difference(one, other) == "TaskGroups[0].Tasks[0].User"
    assert difference(one, {**minimal(), "Status": "running", "Version": 7}) == ""


def test_job_that_hcl_cannot_express_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"a\.b"):
        write_job(minimal(Artifacts=[{"GetterSource": "s", "GetterOptions": {"a.b": "c"}}]))


def test_keys_that_are_no_names_stand_in_an_object() -> None:
    text = write_job(minimal(Env={"a.b": "1", "C": "${x}"}))
    assert 'env = {\n        "a.b" = "1"\n        C     = "${x}"\n      }' in text
    assert read(text)["TaskGroups"][0]["Tasks"][0]["Env"] == {"a.b": "1", "C": "${x}"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", '"plain"'),
        ("${NOMAD_PORT_http}", '"${NOMAD_PORT_http}"'),
        ("${attr.kernel.name}", '"${attr.kernel.name}"'),
        ("${var.secret}", '"$${var.secret}"'),
        ("${upper(x)}", '"$${upper(x)}"'),
        ("%{if}", '"%%{if}"'),
        ('say "hi"\t\\', '"say \\"hi\\"\\t\\\\"'),
        ("a\nb\n", "<<-EOT\n  a\n  b\nEOT"),
        ("  a\n  b\n", "<<EOT\n  a\n  b\nEOT"),
        ("a\nEOT\n", "<<-EOF\n  a\n  EOT\nEOF"),
        ("a\nb", "chomp(<<-EOT\n  a\n  b\nEOT\n)"),
        ("a\r\nb\n", '"a\\r\\nb\\n"'),
    ],
)
def test_string_is_written_in_its_most_readable_form(value: str, text: str) -> None:
    assert string(value) == text
    assert value_of(text + "\n") == value


PIECES = st.sampled_from(
    ["${", "%{", "$", "%", "{", "}", "~", '"', "\\", "\n", "\r", " ", "\t", "a", "var.x", "x",
     "EOT", "if true", "endif", "\u2028", "\x00", "\x7f", "é", "\ufeff", "1 + 1", "<<EOT\n"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join), st.integers(0, 3))
def test_any_string_comes_back(value: str, depth: int) -> None:
    assert value_of(string(normal(value), depth) + "\n") == normal(value)


VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.lists(PIECES, max_size=4).map("".join).map(normal),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["a", "b-c", "for", "null", "x.y", "1", "é", ""]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "dynamic", "content"]), VALUES, max_size=3))
def test_any_config_comes_back(config: dict[str, Any]) -> None:
    text = write_job(minimal(Config=config), short=False)
    got = read(text)["TaskGroups"][0]["Tasks"][0]["Config"]
    assert tree_difference(got, config) is None, text


def test_numbers_keep_their_value() -> None:
    for value in (0, -1, 1.5, 1e22, 9223372036854775807, -0.25, 3.0):
        assert float(value_of(expression(value))) == float(value)


def stored(job: dict[str, Any]) -> dict[str, Any]:
    """As Nomad's servers answer: everything filled in, and what they add themselves."""
    tree: dict[str, Any] = msgspec.to_builtins(to_job(job))
    zeros = {"Stagger": 30_000_000_000, "MaxParallel": 1, "HealthCheck": "", "MinHealthyTime": 0,
             "HealthyDeadline": 0, "ProgressDeadline": 0, "Canary": 0, "AutoRevert": False,
             "AutoPromote": False}  # fmt: skip
    tree |= {"Update": zeros, "Status": "running", "Version": 3, "ModifyIndex": 77}
    for group in tree["TaskGroups"]:
        for task in group["Tasks"]:
            task["Identity"] = {"Name": "default", "Audience": ["nomadproject.io"], "Env": False}
    return tree


@pytest.mark.parametrize("type_", ["service", "batch", "system", "sysbatch"])
def test_fields_that_servers_add_are_not_written(type_: str) -> None:
    job = {**minimal(), "Type": type_}
    text = write_job(stored(job), exact=False)
    assert text == (
        f'job "j" {{\n  type = "{type_}"\n\n  group "g" {{\n    count = 1\n\n    task "t" {{\n'
        '      driver = "d"\n    }\n  }\n}\n'
    )
    assert difference(stored(job), read(text)) == ""


@pytest.mark.parametrize("path", CANONICAL, ids=lambda p: p.stem)
def test_servers_answer_written_and_parsed_is_the_same_job(path: Path) -> None:
    answer = msgspec.to_builtins(to_job(json.loads(path.read_text())))
    assert difference(answer, read(write_job(answer, exact=False))) == ""


def test_what_servers_add_to_stored_scaling_policies_is_no_difference() -> None:
    parsed = json.loads((GOLDEN / "scaling.json").read_text())["Job"]
    stored = json.loads(json.dumps(parsed))
    added = {"ID": "0f", "CreateIndex": 7, "ModifyIndex": 9, "Target": {"Job": "scaling"}}
    for group in stored["TaskGroups"]:
        policies = [each for task in group["Tasks"] for each in task["ScalingPolicies"] or ()]
        for policy in filter(None, [group["Scaling"], *policies]):
            policy.update(added)
    assert difference(stored, parsed) == ""
    stored["TaskGroups"][0]["Scaling"]["Max"] += 1
    assert difference(stored, parsed) == "TaskGroups[0].Scaling.Max"
