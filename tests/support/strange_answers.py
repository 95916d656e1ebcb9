"""Runs every command against an address: `python -m tests.support.strange_answers ADDRESS`.

Prints, as a JSON list, which commands end with something else than a sentence.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from orchgit.cli.main import cli, run
from tests.support.job_texts import sleeper

RUN_SERVERS = frozenset(("orchgit agent", "orchgit dev"))
LONGEST_S = 60
ARGUMENTS = {
    "orchgit job restart": ["-on-error=fail", "-yes"],
    "orchgit operator debug": ["-duration=0s", "-output=."],
    "orchgit var put": ["a=b"],
    "orchgit job tag apply": ["-name=x"],
    "orchgit job tag unset": ["-name=x"],
    "orchgit node drain": ["-enable", "-yes"],
    "orchgit node eligibility": ["-enable"],
    "orchgit node meta apply": ["a=b"],
    "orchgit node config": ["-servers"],
    "orchgit eval delete": ["-yes"],
    "orchgit monitor export": ["-on-disk"],
    "orchgit volume claim delete": ["-y"],
    "orchgit job action": ["-job=x"],
    "orchgit volume create": ["-name=x"],
    "orchgit operator snapshot restore": ["-yes"],
    "orchgit operator raft remove-peer": ["-peer-id=x"],
    "orchgit operator raft transfer-leadership": ["-peer-id=x"],
    "orchgit sql": ["select 1"],
    "orchgit login": ["-login-token=x", "-method=x"],
}


def leaves(command: click.Command, words: str = "orchgit") -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, with its words."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command, info_name=words)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, f"{words} {name}")


COMMANDS = dict(leaves(cli))


def arguments_of(words: str, command: click.Command) -> list[str]:
    """The words of the command, and something for each argument."""
    given = [*words.split()[1:], *ARGUMENTS.get(words, [])]
    if words in ("orchgit volume create", "orchgit sql", "orchgit operator debug"):
        return given
    for each in command.params:
        if isinstance(each, click.Argument):
            number = isinstance(each.type, click.types.IntParamType)
            given.append("1" if number else "x")
    return given


class TooLong(BaseException):
    """A command did not end."""


def ended(arguments: list[str]) -> tuple[int, str, str]:
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    out.seek(0)
    err.seek(0)
    return code, out.read(), err.read()


def problems_with(address: str) -> Iterator[str]:
    """Runs every command against the address; yields what is wrong with how it ends."""
    os.environ["ORCHGIT_ADDR"] = address
    for words, command in COMMANDS.items():
        if words in RUN_SERVERS:
            continue
        arguments = arguments_of(words, command)
        try:
            code, _, err = ended(arguments)
        except TooLong:
            yield f"{words}: does not end"
        except Exception as error:
            yield f"{words}: raised {error!r}"
        else:
            if "Traceback" in err or (code and not err.strip() and words not in QUIET):
                yield f"{words}: exit {code}, said {err!r}"


QUIET = frozenset(("orchgit operator autopilot health", "orchgit var lock", "orchgit lint"))
"""Their exit code alone says that something is not well, or they print on standard output."""


def main() -> None:
    Path("x").write_text(sleeper("web"))
    print(json.dumps(list(problems_with(sys.argv[1]))))


if __name__ == "__main__":
    main()
