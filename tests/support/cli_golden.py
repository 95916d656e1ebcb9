"""Recorded facts about the commands of Nomad, compared with the tree of our commands: names, flags,
exit codes, and the tables and keys that a command prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from orchgit.cli.main import cli, run

EXCEPTED = ("license", "recommendation", "sentinel", "setup")
"""Enterprise, and the set-up of Consul and Vault."""
_EXCEPTED_OUTPUTS = ("quota",)
"""What the recorded program refuses, as it lies in its Enterprise edition, and ours does."""
EXCEPTED_FLAGS = re.compile("consul|vault|eventlog|dev-connect")
COMMAND_TIMEOUT_S = 120
_CLOSED = "http://127.0.0.1:1"
_MISSING_ID = "00000000-1111-2222-3333-444444444444"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Check:
    """One recorded fact; `problem` is empty where ours is the same."""

    name: str
    problem: str


def is_excepted(words: str) -> bool:
    return words.startswith(EXCEPTED)


def found_command(words: str) -> click.Command | None:
    """The command of these words, or None."""
    command: click.Command = cli
    for word in words.split():
        if not isinstance(command, click.Group):
            return None
        context = click.Context(command, info_name=word)
        found = command.get_command(context, word)
        if found is None:
            return None
        command = found
    return command


def run_command(words: list[str], address: str) -> Ended:
    """How a command ends that is run in a directory of its own."""

    def too_long(*_: object) -> None:
        raise TimeoutError("the command did not end")

    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    before = os.getcwd()
    old = signal.signal(signal.SIGALRM, too_long)
    kept = {name: os.environ.get(name) for name in ("ORCHGIT_ADDR", "NOMAD_ADDR")}
    try:
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            os.environ["ORCHGIT_ADDR"] = address
            signal.alarm(COMMAND_TIMEOUT_S)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(words)
            signal.alarm(0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
        os.chdir(before)
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    out.seek(0)
    err.seek(0)
    return Ended(code, out.read(), err.read())


def group_checks(groups: dict[str, Any]) -> Iterator[Check]:
    for words, recorded in groups.items():
        if is_excepted(words):
            continue
        for name in recorded["subcommands"]:
            whole = f"{words} {name}".strip()
            if not is_excepted(whole):
                missing = found_command(whole) is None
                yield Check(f"group {whole}", "there is no such command" if missing else "")


def flag_checks(commands: dict[str, Any], general: dict[str, str]) -> Iterator[Check]:
    for words, recorded in commands.items():
        if is_excepted(words):
            continue
        command = found_command(words)
        expected = {name: general[name] for name in recorded.get("general", [])}
        for name, kind in {**recorded["flags"], **expected}.items():
            if kind == "not a flag" or EXCEPTED_FLAGS.search(name):
                continue
            where = f"flag {words} -{name}"
            if command is None:
                yield Check(where, "there is no such command")
            else:
                yield Check(where, _flag_problem(command, name, kind))


def _flag_problem(command: click.Command, name: str, kind: str | None) -> str:
    options = [each for each in command.params if isinstance(each, click.Option)]
    found = next((each for each in options if f"-{name}" in each.opts), None)
    if found is None:
        return "there is no such flag"
    if kind == "bool":
        return "" if found.is_flag else "takes a value, and should be a flag"
    if kind is None:
        return ""
    if found.is_flag:
        return "is a flag, and should take a value"
    if kind != "value" and isinstance(found.type, click.types.StringParamType):
        return "takes any text, and should refuse nonsense"
    return ""


_NINE = [str(uuid.UUID(int=number)) for number in range(9)]
_SITUATIONS: dict[str, tuple[list[str], bool]] = {
    "unknown flag": (["-nosuchflag"], False),
    "no arguments, server down": ([], False),
    "one argument, server down": (["nosuch"], False),
    "nine arguments": (_NINE, False),
    "missing id": ([_MISSING_ID], True),
    "missing name": (["nosuch"], True),
}
"""Situation -> (arguments, whether a server is there)."""


def exit_checks(commands: dict[str, Any], address: str | None) -> Iterator[Check]:
    """The exit codes of each situation; those with a server only where there is an address."""
    for words, recorded in commands.items():
        if is_excepted(words):
            continue
        situations = {"help": (["-help"], False), **_SITUATIONS}
        wanted = {"help": recorded["exit_help"], **(recorded.get("exit") or {})}
        exists = found_command(words) is not None
        for situation, (arguments, needs_server) in situations.items():
            if situation not in wanted or (needs_server and address is None):
                continue
            name = f"exit {words}: {situation}"
            if not exists:
                yield Check(name, "there is no such command")
                continue
            try:
                there = address if needs_server and address else _CLOSED
                ended = run_command([*words.split(), *arguments], there)
            except Exception as error:
                yield Check(name, f"raised {error!r}")
                continue
            said = (ended.err or ended.out).strip().splitlines()
            problem = ""
            if ended.code != wanted[situation]:
                problem = f"exit {ended.code}, recorded {wanted[situation]}: {said[-1:]}"
            yield Check(name, problem)


def output_checks(outputs: dict[str, Any], ids: dict[str, str], address: str) -> Iterator[Check]:
    """Runs each recorded command on the scenario. Columns and keys of our own may stand between
    the recorded ones."""
    for words, recorded in outputs.items():
        if words.startswith(("__", *_EXCEPTED_OUTPUTS)) or is_excepted(words):
            continue
        name = f"output {words}"
        try:
            filled = [each.format(**ids) for each in words.split()]
            ended = run_command(filled, address)
        except Exception as error:
            yield Check(name, f"raised {error!r}")
            continue
        problems = []
        if ended.code != recorded["exit"]:
            said = (ended.err or ended.out).strip().splitlines()
            problems.append(f"exit {ended.code}, recorded {recorded['exit']}: {said[-1:]}")
        elif recorded["stdout"] != "json" and not recorded["exit"]:
            blocks = recorded["stdout"]
            if isinstance(blocks, dict):
                blocks = blocks["<array>"]
            for block in blocks:
                problems += block_problems(block, ended.out)
        yield Check(name, "; ".join(problems))


def block_problems(block: dict[str, Any], out: str) -> Iterator[str]:
    """What the output lacks of one recorded block."""
    lines = out.splitlines()
    title = block.get("title", "")
    if (
        title
        and not re.search("<|^[\\[{ ]", title)
        and title not in [each.strip() for each in lines]
    ):
        yield f"no title {title!r}"
    keys = block.get("keys") or []
    if isinstance(keys, list):
        printed = [line.split("=", 1)[0].strip() for line in lines if "=" in line]
        for key in keys:
            if "<" not in key and key not in printed and not _is_of_machine(key):
                yield f"no key {key!r}"
    columns = block.get("columns")
    if columns and "=" not in " ".join(columns):
        headers = [re.split(r"\s{2,}", line.strip()) for line in lines]
        if not any(_holds(header, columns) for header in headers):
            yield f"no table with {columns}"


def _is_of_machine(key: str) -> bool:
    """Attributes and counters, which differ between machines and programs."""
    return "." in key or "_" in key or key in _STATS


_STATS = frozenset(
    (
        "bootstrap",
        "leader",
        "server",
        "state",
        "term",
        "arch",
        "goroutines",
        "version",
        "encrypted",
        "failed",
        "left",
        "members",
    )
)


def _holds(header: list[str], columns: list[str]) -> bool:
    """Whether the columns stand in the header, in this order."""
    rest = iter(header)
    return all(column in rest for column in columns)


def golden_file(directory: Path, name: str) -> Any:
    import json

    return json.loads((directory / name).read_text(encoding="utf-8"))
