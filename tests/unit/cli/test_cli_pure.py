"""The command line's pure parts: durations, plan counts, diffs, options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from orchgit.cli.client.next_steps import with_next_step
from orchgit.cli.commands.event import TOPICS
from orchgit.cli.commands.node_status import last_drain
from orchgit.cli.main import COMMANDS, cli
from orchgit.cli.options import option_field, options_of
from orchgit.cli.printing.diff_text import changes_anything, count_text, job_diff_lines
from orchgit.cli.printing.output import duration
from orchgit.durations import parse_length_ns
from orchgit.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1h30m", 5400), ("250ms", 0.25), ("1.5h", 5400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_length_ns(text) == seconds * 1_000_000_000


@pytest.mark.parametrize("text", ["", "5", "2d", "five", "-1s", "1s extra"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="write it like 30s"):
        parse_length_ns(text)


@pytest.mark.parametrize(
    ("span_s", "shown"), [(0, "0s"), (59, "59s"), (61, "1m1s"), (3600, "1h0m"), (90061, "1d1h")]
)
def test_spans_of_time_show_two_units(span_s: int, shown: str) -> None:
    assert duration(span_s * 1_000_000_000) == shown


def test_in_place_changes_alone_count_as_no_change() -> None:
    assert not changes_anything({"DesiredTGUpdates": {"g": {"InPlaceUpdate": 3, "Ignore": 1}}})
    assert changes_anything({"DesiredTGUpdates": {"g": {"Place": 1}}})
    assert not changes_anything(None)
    assert count_text({"Place": 2, "Stop": 1, "Ignore": 5}) == "2 create, 1 destroy"


def test_diff_names_what_changed_and_leaves_out_what_did_not() -> None:
    field = {"Type": "Edited", "Name": "Count", "Old": "1", "New": "2", "Annotations": ["forces"]}
    same = {"Type": "None", "Name": "Same", "Old": "x", "New": "x"}
    task = {"Type": "None", "Name": "t", "Fields": None, "Objects": None}
    group = {
        "Type": "Edited",
        "Name": "g",
        "Fields": [field, same],
        "Objects": [{"Type": "Added", "Name": "Service", "Fields": [], "Objects": None}],
        "Tasks": [task],
        "Updates": {"create": 1},
    }
    lines = list(job_diff_lines({"Type": "Edited", "ID": "web", "TaskGroups": [group]}))
    assert lines == [
        "[yellow]+/-[/yellow] Job: 'web'",
        "[yellow]+/-[/yellow] Task Group: 'g' (1 create)",
        "  [yellow]+/-[/yellow] Count: '1' => '2' (forces)",
        "  [green]+[/green] Service {",
        "  }",
    ]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_and_its_table_entry_is_true(name: str) -> None:
    found = CliRunner().invoke(cli, [name, "-help"])
    assert found.exit_code == 0, found.output
    assert found.output.startswith("Usage: ")


@pytest.mark.parametrize("words", [(), ("job",), ("acl", "token"), ("operator", "raft")])
def test_help_of_a_group_lists_its_commands(words: tuple[str, ...]) -> None:
    group: click.Command = cli
    for word in words:
        assert isinstance(group, click.Group)
        found = group.get_command(click.Context(group), word)
        assert found
        group = found
    assert isinstance(group, click.Group)
    said = CliRunner().invoke(cli, [*words, "-help"]).output
    listed = [line.split()[0] for line in said.partition("\nCommands:\n")[2].splitlines()]
    missing = set(group.list_commands(click.Context(group))) - set(listed)
    assert not missing


@pytest.mark.parametrize(
    ("refusal", "step"),
    [
        ('job "web" in namespace "default" at version 99 not found', "`orchgit job history web`"),
        ('job "web" version 99 not found', "`orchgit job history web`"),
        ("can't promote terminal deployment", "`orchgit deployment list`"),
        ("can't pause terminal deployment", "`orchgit deployment list`"),
        ("no canaries to promote", "`orchgit deployment status`"),
        ('Specified job "web" is not a parameterized job', "`orchgit job run`"),
        ("can't force launch non-periodic job", "`orchgit job eval`"),
        ('task group "x" specified for scaling does not exist in job', "`orchgit job status`"),
        ('unknown task name "x"', "`orchgit alloc status`"),
        ("job scaling blocked due to active deployment", "`orchgit deployment fail`"),
    ],
)
def test_refusal_in_recorded_words_is_followed_by_the_next_step(refusal: str, step: str) -> None:
    said = with_next_step(refusal)
    assert said.startswith(refusal)
    assert step in said


def test_other_refusals_stay_as_the_server_wrote_them() -> None:
    assert with_next_step("Permission denied") == "Permission denied"


def test_long_options_take_one_dash_or_two() -> None:
    one = CliRunner().invoke(cli, ["lint", "-json", "/nonexistent"])
    two = CliRunner().invoke(cli, ["lint", "--json", "/nonexistent"])
    assert one.output == two.output
    assert one.exit_code == two.exit_code == 1
    assert "/nonexistent" in one.output


def test_unknown_command_is_told_the_nearest_one() -> None:
    found = CliRunner().invoke(cli, ["rolout", "list"])
    assert found.exit_code in (1, 2)
    assert "did you mean `orchgit rollout`?" in found.output


def test_node_tells_how_its_last_drain_ended_and_why_it_began() -> None:
    last = {"Status": "canceled", "UpdatedAt": "2027-01-15T08:00:00Z", "Meta": None}
    assert last_drain({"LastDrain": None}) == ""
    assert last_drain({"LastDrain": last}) == "canceled at 2027-01-15T08:00:00Z"
    last["Meta"] = {"message": "new disks"}
    assert last_drain({"LastDrain": last}).endswith("Z (message: new disks)")


def test_options_of_a_struct_reach_the_command_as_one_value() -> None:
    @dataclass(frozen=True)
    class Options:
        size: int = option_field("size", "bigness", type=int, default=1)
        tags: tuple[str, ...] = option_field("tag", multiple=True)
        fast: bool = option_field("fast", is_flag=True)

    @click.command()
    @click.argument("name")
    @options_of(Options)
    def command(name: str, options: Options) -> None:
        click.echo(f"{name} {options}")

    def said(*arguments: str) -> str:
        return CliRunner().invoke(command, arguments).output.strip()

    assert said("x") == f"x {Options(1, (), False)}"
    assert said("x", "-bigness", "3", "--tag", "a", "-tag", "b", "-fast") == (
        f"x {Options(3, ('a', 'b'), True)}"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("operator", "root", "keyring", "rotate", "-prepublish=1h"), "Rotate with -now"),
        (("var", "put", "-out=go-template", "x", "a=b"), "give -template too"),
    ],
)
def test_option_that_could_have_no_effect_is_refused_before_any_request(
    words: tuple[str, ...], said: str
) -> None:
    found = CliRunner().invoke(cli, [*words, "-address", "http://127.0.0.1:1"])
    assert found.exit_code != 0
    assert said in found.output


def test_missing_argument_is_named_after_the_usage() -> None:
    found = CliRunner().invoke(cli, ["alloc", "logs"])
    assert found.exit_code != 0
    assert found.output.startswith("Usage: ")
    assert "Error: cannot run without IDENTIFIER" in found.output


def test_topics_of_events_are_those_that_the_documentation_lists() -> None:
    page = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    listed = page.partition("## Topics of the event stream")[2].split(".")[0]
    names = set(re.findall(r"[A-Z][A-Za-z]+", listed))
    assert "SourceHealthChange" in names
    assert names <= set(TOPICS)


def test_misspelt_topic_is_told_with_the_nearest() -> None:
    words = ["event", "stream", "-topic", "job:web", "-address", "http://127.0.0.1:1"]
    said = CliRunner().invoke(cli, words).output
    assert "no server has events of topic 'job': did you mean Job?" in said


def test_argument_too_many_is_refused_by_name() -> None:
    found = CliRunner().invoke(cli, ["job", "status", "a", "b", "c"])
    assert found.exit_code != 0
    assert "Error: cannot use the arguments 'b' 'c': this command takes no more" in found.output


@pytest.mark.parametrize("words", [("sql", "-"), ("quota", "apply", "-")])
def test_standard_input_that_is_no_text_is_one_sentence(words: tuple[str, ...]) -> None:
    address = ("-address", "http://127.0.0.1:1")
    found = CliRunner().invoke(cli, [*words, *address], input=b"\xff\xfe")
    assert isinstance(found.exception, InvalidInputError)
    assert found.exception.message == "cannot read standard input: it is not UTF-8"
