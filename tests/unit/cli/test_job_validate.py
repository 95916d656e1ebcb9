"""`orchgit job validate` and `plan` on files with mistakes, where no server answers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchgit.cli.main import cli

GOOD = 'job "good" {\n  group "g" {\n    task "t" {\n      driver = "docker"\n    }\n  }\n}\n'


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return f"http://127.0.0.1:{held.getsockname()[1]}"


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin)


def written(folder: Path, text: str) -> str:
    path = folder / "job.nomad.hcl"
    path.write_text(text)
    return str(path)


def test_mistake_in_the_language_is_shown_with_its_line(tmp_path: Path, nobody: str) -> None:
    path = written(tmp_path, GOOD.replace("driver", "drvier"))
    for command, status in (("validate", 1), ("plan", 255), ("run", 1)):
        done = run("job", command, "-address", nobody, path)
        assert done.exit_code == status
        assert 'Did you mean "driver"?' in done.output
        assert "    4 |       drvier = " in done.output
        assert "      |       ^^^^^^" in done.output


def test_lint_finds_what_a_server_would_refuse(tmp_path: Path, nobody: str) -> None:
    path = written(tmp_path, GOOD.replace("task", "count = -2\n    task"))
    done = run("job", "validate", "-address", nobody, path)
    assert done.exit_code == 1
    assert ":3:5: " in done.output
    assert "negative" in done.output.splitlines()[0]


def test_good_file_passes_and_says_that_no_server_was_asked(tmp_path: Path, nobody: str) -> None:
    done = run("job", "validate", "-address", nobody, written(tmp_path, GOOD))
    assert done.exit_code == 0
    assert "checked without a server" in done.stderr
    assert done.stdout == "Job validation successful\n"


def test_variables_count_in_the_check(tmp_path: Path, nobody: str) -> None:
    text = 'variable "n" {\n  type = number\n}\n' + GOOD.replace("task", "count = var.n\n    task")
    path = written(tmp_path, text)
    assert run("job", "validate", "-address", nobody, "-var", "n=50", path).exit_code == 0
    assert run("job", "validate", "-address", nobody, "-var", "n=-4", path).exit_code == 1


def test_standard_input_is_read_once(nobody: str) -> None:
    done = run("job", "validate", "-address", nobody, "-", stdin=GOOD)
    assert done.exit_code == 0
