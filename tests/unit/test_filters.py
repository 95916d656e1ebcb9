"""The filter language: what matches, what is an error and where."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import InvalidInputError
from orchgit.filters import FieldError, parse_filter
from orchgit.model.job import ParameterizedJobConfig
from tests.support.factories import make_job

GOLDEN = Path(__file__).parents[1] / "golden"

JOB = make_job(
    id="web",
    type="service",
    priority=70,
    datacenters=["dc1", "dc2"],
    meta={"team": "blue", "the key": "v"},
    parameterized_job=ParameterizedJobConfig(payload="required"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('ID == "web"', True),
        ("ID == web", True),
        ("ID == `web`", True),
        ('ID != "web"', False),
        ("Priority == 70", True),
        ('Priority == "70"', True),
        ("Priority != 71", True),
        ("Stop == false", True),
        ('ID matches "^w.b$"', True),
        ('ID not matches "x"', True),
        ('"dc1" in Datacenters', True),
        ('"dc9" in Datacenters', False),
        ('"dc9" not in Datacenters', True),
        ('Datacenters contains "dc2"', True),
        ('Datacenters not contains "dc9"', True),
        ('ID contains "e"', True),
        ('"team" in Meta', True),
        ('Meta contains "team"', True),
        ('Meta.team == "blue"', True),
        ('Meta["the key"] == "v"', True),
        ('"/Meta/team" == "blue"', True),
        ('Meta.none == "x"', False),
        ('Meta.none != "x"', True),
        ("Meta is not empty", True),
        ("Constraints is empty", True),
        ("ParameterizedJob is not nil", True),
        ("Periodic is nil", True),
        ('ParameterizedJob.Payload == "required"', True),
        ('ParentID == "" and ParameterizedJob is not nil', True),
        ('ID == "x" or Priority == 70', True),
        ('ID == "x" or Priority == 70 and Type == "batch"', False),
        ('(ID == "x" or Priority == 70) and Type == "service"', True),
        ('not ID == "x"', True),
        ('not (ID == "web" or ID == "x")', False),
        ('any TaskGroups as g { g.Name == "web" }', True),
        ("all TaskGroups as g { g.Count == 5 }", False),
        ("VersionTag is nil", True),
        ("any TaskGroups as _, g { g.Name == web }", True),
        ("ID == x or any TaskGroups as g { g.Name == web }", True),
        ('ID == "\\x77eb"', True),
        ('Priority == "0x46"', True),
    ],
)
def test_matches(text: str, expected: bool) -> None:
    assert parse_filter(text)(JOB) is expected


@pytest.mark.parametrize(
    "text",
    [
        "ID === x",
        "ID ==",
        "== x",
        'ID == "open',
        "(ID == x",
        "ID == x)",
        "ID == x and",
        "ID is",
        "ID is full",
        "ID not == x",
        "",
        "a b c",
        'ID == "we\\"b"',
        'ID == "a\nb"',
        "not any Datacenters as d { d == dc1 }",
        "any Datacenters as d { d == dc1 } and ID == web",
        "any Datacenters as _, _ { ID == web }",
        "x" * 5000,
    ],
)
def test_filter_with_a_mistake_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="failed to create result paginator"):
        parse_filter(text)


def test_filter_error_names_line_and_column() -> None:
    with pytest.raises(InvalidInputError, match=r"1:9 \(8\)"):
        parse_filter("ID == x xor y == z")


def test_unknown_field_is_an_error_only_when_looked_at() -> None:
    predicate = parse_filter('Nope == "x"')
    with pytest.raises(FieldError, match='struct field with name "Nope"'):
        predicate(JOB)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('Periodic.Spec == "x"', "/Periodic/Spec: at part 1, invalid value kind: invalid"),
        ("Periodic is empty", 'type invalid for selector: "Periodic"'),
        ("Periodic == true", "no suitable|unable to find suitable primitive comparison function"),
        ("Priority == abc", 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ("Priority is empty", 'type int for selector: "Priority"'),
        ("Meta.team.name == x", "at part 2, invalid value kind: string"),
        ("Meta.no.name == x", 'at part 1: couldn\'t find key "no"'),
        ('ID matches "("', "missing closing"),
        ("x in Priority", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("7 in Priority", "cannot perform in/contains operations on type int"),
        ("Priority == 99999999999999999999", "value out of range"),
        ("any ID as x { x == 1 }", "ID is not a list or a map"),
        ("ID is nil", "cannot perform is-nil operations on type string"),
        ("Meta matches x", r"value of type map\[string\]string is not convertible"),
        ("Datacenters.x == 1", 'at part 1: couldn\'t convert value "x" to type int'),
        ("any TaskGroups as g { g.X == 1 }", 'at part 2: couldn\'t find key: .* "X"'),
    ],
)
def test_question_that_a_value_cannot_answer_is_refused(text: str, problem: str) -> None:
    predicate = parse_filter(text)
    with pytest.raises(FieldError, match=problem):
        predicate(JOB)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ID", '1:3 (2): no match found, expected: "!=", ".", "==", "[", [ \\t\\r\\n] or'),
        ('"a" == ID', '1:5 (4): no match found, expected: "in", "not" or [ \\t\\r\\n]'),
        ('ID == "a" and', "1:14 (13): no match found, expected: [ \\t\\r\\n]"),
        ('Type in "x"', '1:9 (8): rule "match": Invalid selector'),
        ("Groups[0] == 1", '1:8 (7): rule "index": Invalid index'),
        ('(ID == "a"', '1:11 (10): rule "grouping": Unmatched parentheses'),
    ],
)
def test_mistake_names_place_and_what_could_follow(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_filter(text)
    assert problem in str(raised.value)


def test_quantifier_binds_keys_of_maps_and_places_of_lists() -> None:
    assert parse_filter('any Meta as k, v { k == "team" and v == "blue" }')(JOB)
    assert parse_filter('all Datacenters as i, d { i == 0 or d == "dc2" }')(JOB)
    assert not parse_filter('any Meta as k { k == "blue" }')(JOB)


def test_fields_that_no_client_sees_cannot_be_asked_for() -> None:
    for name in ("__class__", "job_modify_index", "__struct_fields__"):
        with pytest.raises(InvalidInputError):
            parse_filter(f'{name} == "x"')(JOB)


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_an_error_never_a_crash(text: str) -> None:
    with contextlib.suppress(InvalidInputError):
        parse_filter(text)(JOB)


@settings(max_examples=50)
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters='"\\\n'), max_size=20))
def test_quoted_value_is_compared_as_it_is(value: str) -> None:
    assert parse_filter(f'ID == "{value}"')(make_job(id=value)) is True


class Inner(msgspec.Struct):
    A: str = ""
    N: int = 0
    L: list[str] | None = None
    M: dict[str, str] | None = None


class Outer(msgspec.Struct):
    """A field of each kind."""

    ID: str = "alpha"
    Name: str = "Web/api-1"
    Count: int = 7
    ModifyIndex: int = 42
    Ratio: float = 1.5
    Flag: bool = True
    Off: bool = False
    Tags: list[str] | None = None
    None_: list[str] | None = msgspec.field(name="None", default=None)
    Numbers: list[int] | None = None
    Meta: dict[str, str] | None = None
    NoMeta: dict[str, str] | None = None
    Ptr: Inner | None = None
    Nil: Inner | None = None
    In: Inner = msgspec.field(default_factory=lambda: Inner("y"))
    Inners: list[Inner] | None = None
    Ptrs: list[Inner] | None = None
    Lists: dict[str, list[str]] | None = None
    Structs: dict[str, Inner] | None = None
    PBool: bool | None = True
    NBool: bool | None = None
    PInt: int | None = 5
    Empty: str = ""


INNER = Inner("x", 3, ["p", "q"], {"k": "v", "a.b": "dot"})
OUTER = Outer(
    Tags=["a", "b", "12"],
    Numbers=[1, 2, 30],
    Meta={"team": "dev", "a.b": "c", "n": "5", "e": ""},
    Ptr=INNER,
    Inners=[INNER, Inner("z", -1)],
    Ptrs=[INNER, Inner("w")],
    Lists={"one": ["a"], "two": []},
    Structs={"s": INNER},
)
NEIGHBOURS = json.loads((GOLDEN / "filter-neighbours.json").read_text(encoding="utf-8"))
"""Expression -> what go-bexpr 0.1.17 answered for an object like OUTER."""


def test_expressions_are_answered_as_by_the_reference() -> None:
    answers = {text: answer_of(text) for text in NEIGHBOURS}
    assert answers == NEIGHBOURS


def answer_of(text: str) -> str:
    try:
        matches = parse_filter(text)
    except InvalidInputError as error:
        return f"parse: {str(error).partition('failed to read filter expression: ')[2]}"
    try:
        return str(matches(OUTER)).lower()
    except FieldError as error:
        return f"eval: {str(error).partition('failed to read result page: ')[2]}"


def test_value_that_begins_with_a_slash_is_compared_whole() -> None:
    """The reference takes it for a JSON pointer, and drops the slash."""
    assert parse_filter('ID == "/srv/data"')(make_job(id="/srv/data"))
    assert not parse_filter('ID == "/srv/data"')(make_job(id="srv/data"))


@pytest.mark.parametrize(
    "text",
    [
        "a == b or " * 400 + "a == b",
        "ID == b or " * 370 + "ID == b",
        "ID != b and " * 340 + "ID != b",
        "not " * 1000 + "ID == x",
        "(" * 63 + "ID == x" + ")" * 63,
        "any TaskGroups as g { " * 63 + "ID == x" + " }" * 63,
    ],
)
def test_long_filter_is_answered_below_many_callers(text: str) -> None:
    with contextlib.suppress(FieldError):
        below_callers(400, lambda: parse_filter(text)(JOB))


def below_callers(count: int, work: Callable[[], bool]) -> bool:
    return work() if count == 0 else below_callers(count - 1, work)


@pytest.mark.parametrize("text", ["(" * 2000, "any a as b { " * 300, "not (" * 500])
def test_deep_filter_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="more than 64 nested levels"):
        parse_filter(text)


def test_quantifiers_inside_each_other_are_bounded() -> None:
    names = [f"d{number}" for number in range(40)]
    inside = " ".join(f"any Datacenters as {name} {{" for name in names)
    predicate = parse_filter(f"{inside} ID == x {'}' * len(names)}")
    with pytest.raises(FieldError, match="more than 500000 elements"):
        predicate(JOB)


def test_quantifier_looks_at_the_elements_of_a_long_list() -> None:
    predicate = parse_filter("ID == x or any Datacenters as d { d == dc2 }")
    assert all(predicate(JOB) for _ in range(1000))
