"""Single values of job files are set, and every other byte stays."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobspec.parse import parse_job
from jobspec.writing.edit_values import REMOVED, ValueEdit, edit_values

TASK = ("group", "web", "task", "server")
FILE = """\
# The front door.
variable "cpu" {
  default = 100
}

job "web" {
  group "web" {
    count = 2 # two are enough

    task "server" {
      driver = "raw_exec"

      env {
        LEVEL = "info" /* not debug */
      }

      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }

      resources {
        cpu = var.cpu
      }
    }
  }
}
"""


def edited(*edits: tuple[tuple[str, ...], object], text: str = FILE) -> str:
    done = edit_values(text.encode(), "web.hcl", [ValueEdit(*edit) for edit in edits])
    assert done.problems == ()
    return done.content.decode()


def problem(path: tuple[str, ...], value: object, text: str = FILE) -> str:
    done = edit_values(text.encode(), "web.hcl", [ValueEdit(path, value)])
    assert done.content == text.encode()
    [found] = done.problems
    return found


def test_values_are_replaced_in_place_and_comments_stay() -> None:
    found = edited(
        (("group", "web", "count"), 5),
        ((*TASK, "env", "LEVEL"), "debug"),
        ((*TASK, "config", "args"), ["1", "2"]),
    )
    assert found == (
        FILE.replace("count = 2", "count = 5")
        .replace('"info"', '"debug"')
        .replace('["1000"]', '["1", "2"]')
    )


def test_missing_attributes_and_blocks_are_added_and_others_removed() -> None:
    found = edited(
        (("meta", "owner"), "me"),
        (("meta", "team"), "web"),
        ((*TASK, "user"), "nobody"),
        ((*TASK, "config", "args"), REMOVED),
    )
    job = parse_job(found.encode(), filename="web.hcl").spec
    assert job["Meta"] == {"owner": "me", "team": "web"}
    task = job["TaskGroups"][0]["Tasks"][0]
    assert (task["User"], task["Config"]) == ("nobody", {"command": "/bin/sleep"})
    assert found.count("meta {") == 1
    assert "not debug" in found


def test_block_is_found_by_its_place_or_its_label() -> None:
    services = FILE.replace(
        "    count = 2 # two are enough\n",
        '    service {\n      name = "a"\n      port = "80"\n    }\n'
        '    service {\n      name = "b"\n      port = "81"\n    }\n',
    )
    found = edited((("group", "web", "service[1]", "port"), "82"), text=services)
    assert found == services.replace('"81"', '"82"')


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ((*TASK, "resources", "cpu"), 200, "it is computed from var.cpu"),
        (("group", "db", "count"), 1, "it needs a new block"),
        (("group", "web"), 1, "it is a whole block"),
        ((*TASK, "user"), REMOVED, "the file does not set it"),
        ((*TASK, "env", "LEVEL"), REMOVED, "something else stands on its line"),
        (("unknown", "x"), 1, "it is not one plain value"),
    ],
)
def test_what_is_no_edit_of_a_plain_value_is_refused(
    path: tuple[str, ...], value: object, expected: str
) -> None:
    assert problem(path, value) == f"{'.'.join(path)}: {expected}"


def test_values_of_an_object_are_replaced_and_not_added() -> None:
    text = FILE.replace(
        '      env {\n        LEVEL = "info" /* not debug */\n      }\n',
        '      env = {\n        LEVEL = "info"\n      }\n',
    )
    assert '"debug"' in edited(((*TASK, "env", "LEVEL"), "debug"), text=text)
    assert "no value of that name" in problem((*TASK, "env", "MORE"), "x", text)


def test_json_and_files_without_a_job_are_refused() -> None:
    assert "is JSON" in problem(("priority",), 1, '{"job": {}}')
    assert "0 job blocks" in problem(("priority",), 1, "variables {\n}\n")


@pytest.mark.parametrize("text", ["\uf900", "e\u0301"])
def test_string_that_hcl_cannot_hold_is_refused(text: str) -> None:
    assert "a string that HCL cannot hold" in problem((*TASK, "config", "command"), text)


def writable(max_size: int) -> st.SearchStrategy[str]:
    """Strings that HCL can hold: in Unicode's normal form C, without NUL."""
    texts = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=max_size)
    return texts.map(lambda text: unicodedata.normalize("NFC", text))


@settings(max_examples=60, deadline=None)
@given(writable(20), st.integers(0, 1000), st.lists(writable(5), max_size=3))
def test_file_means_exactly_the_values_that_were_set(
    text: str, count: int, args: list[str]
) -> None:
    """Whatever the value holds: quotes, line feeds, interpolations."""
    found = edited(
        (("group", "web", "count"), count),
        ((*TASK, "config", "command"), text),
        ((*TASK, "config", "args"), args),
    )
    group = parse_job(found.encode(), filename="web.hcl").spec["TaskGroups"][0]
    config = group["Tasks"][0]["Config"]
    assert (group["Count"], config["command"], config["args"]) == (count, text, args)
