"""Every command of sources and rollouts can answer a program."""

import click
import pytest

from orchgit.cli.commands.rollout import rollout
from orchgit.cli.commands.source import source
from orchgit.cli.printing.output_format import OutputFormat


@pytest.mark.parametrize("group", [source, rollout], ids=["source", "rollout"])
def test_every_command_of_the_group_has_json_and_templates(group: click.Group) -> None:
    for name, command in group.commands.items():
        spellings = {each for option in command.params for each in option.opts}
        assert {"-json", "-t"} <= spellings, name


def test_no_question_is_asked_where_a_program_reads_the_answer() -> None:
    with pytest.raises(click.UsageError, match="add -yes"):
        OutputFormat(as_json=True).refuse_question(yes=False)
    OutputFormat(as_json=True).refuse_question(yes=True)
    OutputFormat().refuse_question(yes=False)
