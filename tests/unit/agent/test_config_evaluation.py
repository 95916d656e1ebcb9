"""The `config` of a driver is evaluated as HCL; what it refers to must be there."""

from __future__ import annotations

from typing import Any

import pytest

from agent.tasks.config_evaluation import ConfigScope

NAMES = {
    "node.class": "big",
    "attr.driver.docker": "1",
    "attr.driver.docker.version": "20",
    "meta.rack": "r1",
    "meta.dash-key": "d",
}
ENV = {"NOMAD_TASK_NAME": "t", "FOO": "foo", "NOMAD_PORT_http": "80", "LIST": '["a", 2]'}


def evaluated(config: Any) -> tuple[Any, list[str]]:
    found, problems = ConfigScope(NAMES, ENV).evaluate({"x": config})
    return found["x"], problems


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain $FOO ~/x", "plain $FOO ~/x"),
        ("${NOMAD_TASK_NAME}-${ FOO }", "t-foo"),
        ("$${FOO} %%{FOO}", "${FOO} %{FOO}"),
        ('${env["FOO"]}${env.FOO}${node.meta.rack}', "foofoor1"),
        ("${meta.dash-key}${node.class}", "dbig"),
        ("${attr.driver.docker}/${attr.driver.docker.version}", "1/20"),
        ("${upper(FOO)}", "FOO"),
        ("${1 + 2}", "3"),
        ('%{ if FOO == "foo" }yes%{ endif }', "yes"),
        ("${jsondecode(LIST)}", ["a", 2]),
        (["${FOO}", 5, {"${FOO}": True}], ["foo", 5, {"foo": True}]),
    ],
)
def test_text_of_a_config_is_evaluated(text: Any, result: Any) -> None:
    assert evaluated(text) == (result, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${UNKNOWN}", 'Unknown variable: There is no variable named "UNKNOWN".'),
        (
            "${NOMAD_PORT_http_x}",
            'Unknown variable: There is no variable named "NOMAD_PORT_http_x". '
            'Did you mean "NOMAD_PORT_http"?',
        ),
        (
            "${meta.nope}",
            'Unsupported attribute: This object does not have an attribute named "nope".',
        ),
        (
            '${file("/etc/shadow")}',
            'Call to unknown function: There is no function named "file".',
        ),
    ],
)
def test_reference_to_what_is_not_there_is_a_problem(text: str, problem: str) -> None:
    assert evaluated(text) == (text, [problem])


def test_every_problem_of_a_config_is_told() -> None:
    assert len(evaluated(["${A}", {"b": "${B}"}])[1]) == 2


def test_expression_that_costs_too_much_is_a_problem() -> None:
    loops = "1"
    for _ in range(7):
        loops = f"[for each in [1, 2, 3, 4, 5, 6, 7, 8, 9]: {loops}]"
    assert evaluated("${" + loops + "}")[1][0].startswith("Too many iterations")
