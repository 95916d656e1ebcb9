"""HCL1 text becomes a tree with places; mistakes are told with their places, all at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchgit.errors import TooLargeError
from orchgit.hcl1.errors import Hcl1Error
from orchgit.hcl1.parse import MAX_BYTES, MAX_DEPTH, MAX_PROBLEMS, parse
from orchgit.hcl1.tree import Hcl1Body, Hcl1Item, ListValue, Literal, Value


def plain(value: Value) -> Any:
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, ListValue):
        return [plain(one) for one in value.items]
    return [(tuple(key.text for key in item.keys), plain(item.value)) for item in value.items]


def problems(text: str) -> list[str]:
    with pytest.raises(Hcl1Error) as caught:
        parse(text, "a.hcl")
    return [problem.without_file for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('a = "x"', "x"),
        ("a = 1", 1),
        ("a = -1", -1),
        ("a = 0x1F", 31),
        ("a = 010", 8),
        ("a = 1.5", 1.5),
        ("a = 2e3", 2000.0),
        ("a = true", True),
        ("a = false", False),
        (r'a = "t\tq\"b\\u\u00e9"', 't\tq"b\\u\u00e9'),
        ('a = "${x "y" {}}"', '${x "y" {}}'),
        ('a = ["x", 1, true, [2], {b = 3}]', ["x", 1, True, [2], [(("b",), 3)]]),
        ('a = ["x",\n "y",\n]', ["x", "y"]),
        ("a = <<END\none\n  two\nEND\n", "one\n  two\n"),
        ("a = <<-END\n    one\n      two\n    END\n", "one\n  two\n"),
        ("a = <<-END\n one\n    END\n", " one\n"),
        ("a = {}", []),
        ("a {}", []),
    ],
)
def test_value_is_read(text: str, value: Any) -> None:
    (item,) = parse(text, "a.hcl").items
    assert item.name == "a"
    assert plain(item.value) == value


@pytest.mark.parametrize(
    "text",
    [
        "server {\n enabled = true\n n = 1\n}",
        "server { enabled = true, n = 1 }",
        "server { enabled = true n = 1 }",
        "server = { enabled = true, n = 1, }",
        '"server" { "enabled" = true "n" = 1 }',
        "# c\nserver { // c\n enabled /* c */ = true # c\n n = 1 },\n",
        '{"server": {"enabled": true, "n": 1}}',
        '\ufeff {"server": {"enabled": true, "n": 1,},}',
    ],
)
def test_ways_to_write_a_block_give_one_tree(text: str) -> None:
    expected = [(("server",), [(("enabled",), True), (("n",), 1)])]
    assert plain(parse(text, "a.hcl")) == expected


@pytest.mark.parametrize(
    "text",
    [
        'plugin "docker" { config { x = 1 } }',
        'plugin "docker" "config" { x = 1 }',
        "plugin { docker { config { x = 1 } } }",
        '{"plugin": {"docker": {"config": {"x": 1}}}}',
        '{"plugin": [{"docker": [{"config": [{"x": 1}]}]}]}',
    ],
)
def test_label_and_inner_level_mean_the_same(text: str) -> None:
    (block,) = parse(text, "a").labelled("plugin")
    assert block.label is not None
    assert block.label.text == "docker"
    (config,) = block.body.blocks("config")
    assert plain(config) == [(("x",), 1)]


def test_block_with_a_scalar_has_no_label() -> None:
    (block,) = parse('namespace { policy = "read" }', "a").labelled("namespace")
    assert block.label is None
    assert plain(block.body) == [(("policy",), "read")]


def test_every_node_knows_its_place() -> None:
    body = parse('a = 1\nb "l" {\n  c = [ 2,\n   "x"]\n}\n', "f.hcl")
    first, second = body.items
    assert str(first.position) == "f.hcl:1:1"
    assert str(first.value.position) == "f.hcl:1:5"
    assert [str(key.position) for key in second.keys] == ["f.hcl:2:1", "f.hcl:2:3"]
    assert isinstance(second.value, Hcl1Body)
    assert str(second.value.position) == "f.hcl:2:7"
    inner = second.value.items[0].value
    assert isinstance(inner, ListValue)
    assert [str(one.position) for one in inner.items] == ["f.hcl:3:9", "f.hcl:4:4"]
    (json,) = parse('{"a":\n  1}', "f.json").items
    assert (str(json.position), str(json.value.position)) == ("f.json:1:2", "f.json:2:3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server {", "At 1:10: object expected closing RBRACE got: EOF"),
        ("namespace {", "At 1:13: object expected closing RBRACE got: EOF"),
        ("a {\n b {\n c = 1", "At 3:8: object expected closing RBRACE got: EOF"),
        (
            "nonsense",
            "At 1:10: key 'nonsense' expected start of object ('{') or assignment ('=')",
        ),
        ("x = 1\n" * 5 + 'region: "eu"', "At 6:7: illegal char"),
        ("namespace 'default' { }", "At 1:11: illegal char"),
        ("[]", "At 1:1: expected: IDENT | STRING | ASSIGN | LBRACE got: LBRACK"),
        ("a b = 1", "At 1:5: nested object expected: LBRACE got: ASSIGN"),
        ("a = b", "At 1:5: Unknown token: 1:5 IDENT b"),
        ("a = [1 2]", "At 1:8: error parsing list, expected comma or list end, got: NUMBER"),
        ("a = [b]", "At 1:6: unexpected token while parsing list: IDENT"),
        ('a = "x\nb = 1', "At 1:7: literal not terminated"),
        (r'a = "\q"', "At 1:7: illegal char escape"),
        ("a = 08", "At 1:5: illegal octal number"),
        ("a = 99999999999999999999", "At 1:5: value out of range"),
        ("a = <<E\nx", "At 2:2: heredoc not terminated"),
        ("/* x", "At 1:1: comment not terminated"),
        ("}", "At 1:1: expected: IDENT | STRING | ASSIGN | LBRACE got: RBRACE"),
        ('{"a": }', "At 1:7: Unknown token: 1:7 RBRACE }"),
        ('{"a" 1}', "At 1:6: expected: COLON got: NUMBER"),
        ('{"a": 1} x', "At 1:10: illegal char"),
    ],
)
def test_mistake_is_told_with_its_place(text: str, message: str) -> None:
    assert problems(text) == [message]


def test_all_mistakes_are_told_at_once() -> None:
    text = "a = b\nc {\n d = ?\n e = 1\n f = [1 2]\n}\ng = 'x'\nh = 1\n"
    assert [one.split(":")[0] + ":" + one.split(":")[1] for one in problems(text)] == [
        "At 1:5",
        "At 3:6",
        "At 5:9",
        "At 7:5",
    ]
    with pytest.raises(Hcl1Error, match=r"^cannot read a.hcl:\na.hcl:1:5: Unknown token"):
        parse(text, "a.hcl")


def test_text_beyond_its_bounds_is_refused() -> None:
    with pytest.raises(TooLargeError):
        parse("#" * (MAX_BYTES + 1), "a")
    inside = "a {" * MAX_DEPTH + "}" * MAX_DEPTH
    assert parse(inside, "a").items
    assert problems("a {" * 100_000) == [
        f"At 1:{3 * MAX_DEPTH + 3}: more than {MAX_DEPTH} objects and lists inside each other"
    ]
    assert len(problems("a = b\n" * 100)) == MAX_PROBLEMS


VALUES = st.recursive(
    st.one_of(
        st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.text('ab"\\${}\n\té', max_size=5)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text("abc_-", min_size=1), inner, max_size=3),
    ),
    max_leaves=8,
)


def as_json(item: Value) -> Any:
    if isinstance(item, Hcl1Body):
        return {one.name: as_json(one.value) for one in item.items}
    return [as_json(one) for one in item.items] if isinstance(item, ListValue) else item.value


@given(st.dictionaries(st.text("abc", min_size=1), VALUES, max_size=3))
def test_json_document_is_read_as_json_reads_it(document: dict[str, Any]) -> None:
    assert as_json(parse(json.dumps(document, ensure_ascii=False), "a")) == document


@given(st.text('ab1"{}[]=,\n #/*<E-.:$\\', max_size=40))
def test_any_text_gives_a_tree_or_mistakes_with_places_inside_it(text: str) -> None:
    lines = []
    try:
        body = parse(text, "a")
    except Hcl1Error as error:
        lines = [one.position.line for one in error.problems]
    else:
        assert all(isinstance(item, Hcl1Item) for item in body.items)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines)


def test_what_follows_a_mistake_inside_a_list_is_still_read() -> None:
    assert problems("a = [[1 2]]\n}\nb = ?\n") == [
        "At 1:9: error parsing list, expected comma or list end, got: NUMBER",
        "At 3:5: illegal char",
    ]
