"""Reading a file as a whole: the API tree, all problems at once, variables, limits."""

from __future__ import annotations

import pytest

from jobspec.errors import JobFileErrors
from jobspec.parse import MAX_FILE_BYTES, ParsedJob, parse_job

MINIMAL = """
job "web" {
  group "g" {
    count = 2
    task "t" {
      driver = "exec"
    }
  }
}
"""


def parse(text: str, **inputs: object) -> ParsedJob:
    return parse_job(text.encode(), filename="dir/web.nomad.hcl", **inputs)  # type: ignore[arg-type]


def problems(text: str, **inputs: object) -> list[str]:
    with pytest.raises(JobFileErrors) as caught:
        parse(text, **inputs)
    return list(caught.value.problems)


def test_tree_has_the_apis_names_and_nulls() -> None:
    spec = parse(MINIMAL).spec
    assert spec["ID"] == spec["Name"] == "web"
    assert spec["Datacenters"] is None
    group = spec["TaskGroups"][0]
    assert (group["Name"], group["Count"], group["Update"]) == ("g", 2, None)
    assert group["Tasks"][0]["Driver"] == "exec"


def test_every_problem_of_a_file_is_reported_with_its_place() -> None:
    found = problems(
        'job "web" {\n'
        '  datacentres = ["a"]\n'
        '  group "g" {\n'
        '    count = "many"\n'
        "    service {\n"
        '      nmae = "x"\n'
        "    }\n"
        "    updat {\n"
        "    }\n"
        "  }\n"
        "}\n"
    )
    assert [line.split(": ")[0] for line in found] == [
        "web.nomad.hcl:2:3",
        "web.nomad.hcl:4:14",
        "web.nomad.hcl:6:7",
        "web.nomad.hcl:8:5",
    ]
    assert 'Did you mean "datacenters"?' in found[0]
    assert 'Did you mean "name"?' in found[2]
    assert 'Did you mean "update"?' in found[3]


def test_syntax_reading_goes_on_after_a_mistake() -> None:
    found = problems('job "web" {\n  name = 5 5\n  type = [1 2]\n  region = "x"\n  id = \n}\n')
    assert [line.split(": ")[0] for line in found] == [
        "web.nomad.hcl:2:12",
        "web.nomad.hcl:3:13",
        "web.nomad.hcl:5:8",
    ]


def test_problem_shows_its_line_with_a_caret() -> None:
    with pytest.raises(JobFileErrors) as caught:
        parse('job "web" {\n\tname = uper("ü")\n}\n')
    shown = caught.value.details[0].pretty().splitlines()
    assert shown[0].endswith('Did you mean "upper"?')
    assert shown[1] == '    2 | \tname = uper("ü")'
    assert shown[2] == "      | \t       ^^^^"


def test_long_line_is_shown_around_the_place() -> None:
    with pytest.raises(JobFileErrors) as caught:
        parse('job "web" {\n  name = "' + "x" * 5000 + '${1 +}"\n}\n')
    problem = caught.value.details[0]
    assert (problem.line, problem.column) == (2, 5016)
    assert all(len(line) < 250 for line in problem.pretty().splitlines())


def test_columns_count_what_a_reader_sees() -> None:
    assert problems('job "web" {\n  name = "e\u0301👨\u200d👩" x\n}\n')[0].startswith(
        "web.nomad.hcl:2:15:"
    )


def test_mistake_in_a_variable_is_not_repeated_where_it_is_used() -> None:
    text = (
        'variable "n" {\n  type = number\n}\n'
        'job "web" {\n  priority = var.n\n  name = "${var.n}"\n}\n'
    )
    assert len(problems(text)) == 1
    assert len(problems(text, variables={"n": "many"})) == 1


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a = " + "[" * 5000, "1:105"),
        ("a = " + "-" * 5000 + "1", "1:105"),
        ('a = "' + '${"' * 5000, "1:305"),
        ("b {\n" * 5000, "101:1"),
        ('job "x" {\n  name = ' + "1 + " * 5000 + "1\n}\n", "1:1"),
    ],
)
def test_deep_nesting_is_an_error(text: str, where: str) -> None:
    found = problems(text)
    assert found[0].startswith(f"web.nomad.hcl:{where}: ")
    assert "nest" in found[0].lower()


def test_huge_file_is_refused_with_the_limit() -> None:
    assert str(MAX_FILE_BYTES) in problems("#" * (MAX_FILE_BYTES + 1))[0]


def test_file_that_is_not_utf8_is_refused_at_its_place() -> None:
    with pytest.raises(JobFileErrors) as caught:
        parse_job(b'job "x" {\n  name = "a\xff"\n}\n', filename="x.hcl")
    assert caught.value.problems[0].startswith("x.hcl:2:12: ")


def test_json_problems_have_places_too() -> None:
    text = '{\n  "job": {"x": {"group": {"g": {"count": "${1 + }"}}}}\n}\n'
    assert problems(text)[0].startswith("web.nomad.hcl:2:49: ")
    assert problems('{"job": {"x": {"name": "a\\n${b +}"}}}')[0].startswith("web.nomad.hcl:1:24: ")
    two = '{"job": {"x": {\n"name": "a\\n${b}",\n"type": "\\t${c +}"}}}'
    assert problems(two)[0].startswith("web.nomad.hcl:3:9: ")
    assert problems('{"job": [1,]}')[0].startswith("web.nomad.hcl:1:11: ")


@pytest.mark.parametrize(
    ("inputs", "value"),
    [
        ({}, "default"),
        ({"env": {"NOMAD_VAR_v": "nomad"}}, "nomad"),
        ({"env": {"NOMAD_VAR_v": "nomad", "ORCHGIT_VAR_v": "own", "NOMAD_VAR_zz": "x"}}, "own"),
        ({"env": {"NOMAD_VAR_v": "env"}, "var_files": [("a.hcl", b'v = "file"')]}, "file"),
        ({"var_files": [("a.hcl", b'v = "a"'), ("b.json", b'{"v": "b"}')]}, "b"),
        ({"var_files": [("a.hcl", b'v = "a"')], "variables": {"v": "arg"}}, "arg"),
    ],
)
def test_precedence_of_values(inputs: dict[str, object], value: str) -> None:
    text = 'variable "v" {\n  default = "default"\n}\njob "web" {\n  name = var.v\n}\n'
    assert parse(text, **inputs).spec["Name"] == value


def test_undeclared_values_are_errors_unless_lenient() -> None:
    text = 'variable "version" {\n  default = 1\n}\njob "web" {\n}\n'
    assert 'Did you mean "version"?' in problems(text, variables={"verson": "2"})[0]
    files = [("a.hcl", b"verson = 2\n")]
    assert problems(text, var_files=files)[0].startswith("a.hcl:1:1: ")
    assert parse(text, variables={"verson": "2"}, var_files=files, strict=False).spec["ID"] == "web"


class OneFile:
    """A tree with a single file."""

    def read(self, path: str) -> bytes:
        if path != "motd.txt":
            raise FileNotFoundError(path)
        return b"hello"

    def exists(self, path: str) -> bool:
        return path == "motd.txt"

    def glob(self, base: str, pattern: str) -> list[str]:
        return ["motd.txt"]

    def absolute(self, path: str) -> str:
        return "/" + path


def test_files_are_read_only_through_what_the_caller_gives() -> None:
    text = 'job "web" {\n  name = file("motd.txt")\n}\n'
    assert parse(text, files=OneFile()).spec["Name"] == "hello"
    assert "filesystem function disabled" in problems(text)[0]
    missing = problems('job "web" {\n  name = file("/etc/passwd")\n}\n', files=OneFile())
    assert missing[0].startswith("web.nomad.hcl:2:10: ")
    assert "no file exists at /etc/passwd" in missing[0]


def test_positions_lead_back_to_the_file() -> None:
    parsed = parse(MINIMAL)
    assert parsed.positions.locate(()) == (2, 1)
    assert parsed.positions.locate(("TaskGroups", 0)) == (3, 3)
    assert parsed.positions.locate(("TaskGroups", 0, "Count")) == (4, 5)
    assert parsed.positions.locate(("TaskGroups", 0, "Tasks", 0, "Driver")) == (6, 7)
    assert parsed.positions.locate(("TaskGroups", 0, "Update", "Canary")) == (3, 3)


def test_dynamic_blocks_keep_the_place_of_what_made_them() -> None:
    text = (
        'job "web" {\n  dynamic "group" {\n    for_each = ["a", "b"]\n    labels = [group.value]\n'
        "    content {\n      count = group.key\n    }\n  }\n}\n"
    )
    parsed = parse(text)
    assert [g["Name"] for g in parsed.spec["TaskGroups"]] == ["a", "b"]
    assert parsed.positions.locate(("TaskGroups", 1)) == (2, 3)
    assert parsed.positions.locate(("TaskGroups", 1, "Count")) == (6, 7)
