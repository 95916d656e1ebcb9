"""The filter language: what matches, what is an error and where."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import InvalidInputError
from orchgit.filters import FieldError, parse_filter
from orchgit.model.job import ParameterizedJobConfig
from tests.support.factories import make_job

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
        ('ID == "we\\"b"', False),
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
        ("x in Priority", "cannot perform in/contains operations on type int"),
        ("any ID as x { x == 1 }", "cannot perform any/all operations on type string"),
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
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters='"\\'), max_size=20))
def test_quoted_value_is_compared_as_it_is(value: str) -> None:
    assert parse_filter(f'ID == "{value}"')(make_job(id=value)) is True
