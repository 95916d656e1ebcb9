"""The template language of job files."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.templates.functions import Known, TemplateSources, task_functions
from agent.templates.outside import Reading
from agent.templates.queries import Query, QueryKind
from agent.templates.variables import parse_variables
from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.render import MAX_STEPS, render

ENV = {"NOMAD_PORT_http": "8080", "NAME": "shop", "JSON": '{"a": {"b": [1, 2]}, "on": true}'}


def read_file(path: str) -> str:
    if path != "local/x":
        raise InvalidInputError(f'cannot read "{path}"')
    return "file text"


def rendered(text: str, **options: Any) -> str:
    budget = StepBudget(MAX_STEPS)
    sources = TemplateSources(ENV, read_file, 1_700_000_000 * 10**9, ask, lambda text: text)
    functions = task_functions(sources, budget, Reading())
    return render(text, functions=functions, budget=budget, **options)


def ask(query: Query) -> tuple[Known, Any]:
    if (query.kind, query.name) == (QueryKind.VARIABLE, "app"):
        return Known.FOUND, {"Items": {"user": "alice"}, "Path": "app", "Namespace": "default"}
    return Known.ABSENT, None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain { } text", "plain { } text", id="plain"),
        pytest.param('port={{ env "NOMAD_PORT_http" }};', "port=8080;", id="env"),
        pytest.param('{{ env "NONE" }}|{{ envOrDefault "NONE" "d" }}', "|d", id="env-default"),
        pytest.param("a {{- /* note */ -}} b", "ab", id="comment-and-trim"),
        pytest.param("a\n  {{- 1 }}\n", "a1\n", id="trim-left"),
        pytest.param("{{ 1 -}}\n  b", "1b", id="trim-right"),
        pytest.param('{{ env "NAME" | toUpper | printf "%s!" | len }}', "5", id="pipe"),
        pytest.param('{{ printf "%s:%05.1f:%q" "x" 2.5 "y" }}', 'x:002.5:"y"', id="printf"),
        pytest.param("{{ if true }}a{{ else }}b{{ end }}", "a", id="if"),
        pytest.param(
            '{{ if env "NONE" }}a{{ else if eq 1 1 }}b{{ else }}c{{ end }}', "b", id="elif"
        ),
        pytest.param(
            "{{ range $i, $x := loop 1 4 }}{{ $i }}{{ $x }} {{ end }}", "01 12 23 ", id="range"
        ),
        pytest.param("{{ range loop 0 }}x{{ else }}none{{ end }}", "none", id="range-else"),
        pytest.param(
            '{{ with env "JSON" | parseJSON }}{{ .a.b }} {{ .on }}{{ end }}',
            "[1 2] true",
            id="with",
        ),
        pytest.param('{{ $c := env "JSON" | parseJSON }}{{ index $c.a.b 1 }}', "2", id="variable"),
        pytest.param("{{ $a := 1 }}{{ if true }}{{ $a = 2 }}{{ end }}{{ $a }}", "2", id="assign"),
        pytest.param('{{ (env "JSON" | parseJSON).a }}', "map[b:[1 2]]", id="parenthesis"),
        pytest.param(
            '{{ range $k, $v := env "JSON" | parseJSON }}{{ $k }},{{ end }}', "a,on,", id="map"
        ),
        pytest.param('{{ and 1 0 }}{{ or 0 "x" }}{{ not 0 }}', "0xtrue", id="logic"),
        pytest.param(
            "{{ add 1 2 }} {{ subtract 1 5 }} {{ divide 2 7 }} {{ modulo 4 7 }}",
            "3 4 3 3",
            id="sums",
        ),
        pytest.param('{{ "a,b" | split "," | join "-" }}', "a-b", id="split-join"),
        pytest.param('{{ "x" | base64Encode | base64Decode }}', "x", id="base64"),
        pytest.param('{{ file "local/x" }}', "file text", id="file"),
        pytest.param(
            '{{ timestamp }} {{ timestamp "unix" }}', "2023-11-14T22:13:20Z 1700000000", id="time"
        ),
        pytest.param('{{ "}}" }}{{ `{{raw}}` }}', "}}{{raw}}", id="delimiters-in-strings"),
        pytest.param('{{ "a\\n\\"b\\"" }}', 'a\n"b"', id="escapes"),
        pytest.param('{{ parseJSON "{\\"a\\":1}" | toJSON }}', '{"a":1}', id="json"),
        pytest.param("{{ (parseJSON `{}`).none }}", "<no value>", id="missing-key"),
    ],
)
def test_template_renders_as_recorded(text: str, expected: str) -> None:
    assert rendered(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n{{ nope 1 }}", 'template: :2: function "nope" not defined'),
        ("{{ if true }}", "template: :1: unexpected EOF"),
        ("{{ end }}", "unexpected {{end}}"),
        ("{{ 1 ", "unclosed action"),
        ('{{ "a }}', "unterminated quoted string"),
        ("{{ }}", "missing value for command"),
        ('{{ mustEnv "NONE" }}', "environment variable NONE is not set"),
        ("{{ $x }}", 'undefined variable "$x"'),
        ("{{ divide 0 1 }}", "integer divide by zero"),
        ('{{ file "/etc/passwd" }}', "error calling file: cannot read"),
        ("{{ range loop 99999999 }}{{ end }}", "over 1000000"),
        ("{{ len 5 }}", "error calling len: len of type int"),
        ("{{ toUpper 5 }}", "expected string; found 5"),
        ("{{ toUpper (add 1 2) }}", "wrong type for value; expected string; got int64"),
        ("{{ toUpper }}", "wrong number of args for toUpper: want 1 got 0"),
        ('{{ template "t" }}', 'template "t" not defined'),
        ("{{ break }}", "{{break}} outside {{range}}"),
        ('{{ writeToFile "x" }}', "function is disabled"),
    ],
)
def test_wrong_template_is_refused_with_its_reason(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        rendered(text)
    assert message in str(caught.value)


def test_other_delimiters_and_missing_keys() -> None:
    text = '[[ env "NAME" ]] {{x}}'
    assert rendered(text, delimiters=("[[", "]]")) == "shop {{x}}"
    with pytest.raises(InvalidInputError, match='map has no entry for key "none"'):
        rendered("{{ (parseJSON `{}`).none }}", err_missing_key=True)


def test_variables_of_an_env_template() -> None:
    text = "# c\n\nexport A=1\n B = two words # note\nC=\"x\\ny\"\nD='# raw'\nE=\n"
    assert parse_variables(text) == {"A": "1", "B": "two words", "C": "x\ny", "D": "# raw", "E": ""}
    with pytest.raises(InvalidInputError, match="error on line 2: missing ="):
        parse_variables("A=1\nnonsense\n")


@pytest.mark.parametrize("line", ["A=a\x01", 'A="a\tb"', "A='a\rb'", "A=a\x1f", "A=\0"])
def test_control_character_in_a_value_is_refused(line: str) -> None:
    with pytest.raises(InvalidInputError, match=r"error on line 2: 0x.. is an invalid value"):
        parse_variables(f"B=1\n{line}\n")


def test_spaces_around_values_and_the_word_export_are_no_part_of_a_variable() -> None:
    assert parse_variables("export =b\n A =\u2003x\v\r\n") == {"export": "b", "A": "x"}


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='{}-|()$.:="`ab1 \nenvifdrsg', max_size=40))
def test_any_text_is_rendered_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInputError):
        rendered(text)
