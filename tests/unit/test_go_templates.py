"""Go's template language over data, as `-t` of the commands uses it."""

from __future__ import annotations

import pytest

from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.render import render

JOBS = [
    {"ID": "web", "Stop": False, "Count": 3, "Meta": {"team": "shop"}, "Weight": 0.5},
    {"ID": "db", "Stop": True, "Count": 1, "Meta": None, "Weight": 2.0},
]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{{range .}}{{.ID}} {{end}}", "web db ", id="range-over-the-answer"),
        pytest.param(
            "{{range $i, $job := .}}{{$i}}={{$job.ID}};{{end}}", "0=web;1=db;", id="index"
        ),
        pytest.param("{{(index . 0).Meta.team}}", "shop", id="field-of-a-field"),
        pytest.param("{{len .}} {{len $}}", "2 2", id="dot-and-root"),
        pytest.param("{{range .}}{{if .Stop}}{{.ID}}{{end}}{{end}}", "db", id="condition"),
        pytest.param(
            "{{range .}}{{with .Meta}}{{$.nothing}}{{.team}}{{end}}{{end}}", None, id="bad"
        ),
        pytest.param("{{range .}}{{with .Meta}}{{.team}}{{end}}{{end}}", "shop", id="with"),
        pytest.param('{{range .}}{{printf "%-4s|" .ID}}{{end}}', "web |db  |", id="printf"),
        pytest.param(
            '{{printf "%6.3v|% d|%+q" 10 2.5 1000}}',
            r"   010|%!d(float64= 2.5)|'\u03e8'",
            id="flags-count-for-any-verb",
        ),
        pytest.param(
            '{{define "a"}} {{end}}{{define "a"}}x{{end}}{{template "a"}}',
            "x",
            id="empty-definition-gives-way",
        ),
        pytest.param('{{define ""}}x{{end}} ', "x", id="definition-of-the-whole"),
        pytest.param("{{range .}}{{.Weight}} {{end}}", "0.5 2 ", id="floats-as-go-prints-them"),
        pytest.param("{{(index . 1).Missing}}", "<no value>", id="missing-key"),
        pytest.param("{{(index . 0).Meta}}", "map[team:shop]", id="map"),
    ],
)
def test_template_renders_the_same_text_as_go(template: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(InvalidInputError, match="can't evaluate field nothing"):
            render(template, JOBS)
        return
    assert render(template, JOBS) == expected


@pytest.mark.parametrize(
    "template",
    [
        '{{define "a"}}x{{end}}{{define "a"}}y{{end}}',
        '{{block "a" 1}}x{{block "a" 2}}y{{end}}{{end}}',
    ],
)
def test_template_that_is_defined_twice_is_refused(template: str) -> None:
    with pytest.raises(InvalidInputError, match='multiple definition of template "a"'):
        render(template, JOBS)


def test_caller_functions_are_available_beside_gos() -> None:
    assert render("{{double .}} {{len .}}", "ab", functions={"double": lambda s: 2 * s}) == "abab 2"


def test_task_functions_are_unknown_unless_given() -> None:
    with pytest.raises(InvalidInputError, match=':1: function "env" not defined'):
        render('{{env "HOME"}}')


def test_template_past_its_budget_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="more than 5 steps"):
        render("{{range .}}{{.}}{{end}}", [1, 2, 3, 4], budget=StepBudget(5))
