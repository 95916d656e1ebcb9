"""The completion scripts in the shells that they are for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.json_http_stub import JsonHttpStub, StubRequest

PROGRAMS = {
    "bash": """
        eval "$(orchgit completion bash)"
        offered() {
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
            _orchgit_completion orchgit
            printf '%s\\n' "${COMPREPLY[@]}" ---
        }
    """,
    "zsh": """
        compdef() { }
        compadd() { print -l -- $completions }
        _describe() { print -l -- $completions_with_descriptions }
        eval "$(orchgit completion zsh)"
        offered() { words=("$@") CURRENT=$#; _orchgit_completion; print -- --- }
    """,
    "fish": """
        orchgit completion fish | source
        function offered; complete -C "$argv"; echo ---; end
    """,
}
ASKED = """
offered orchgit job sta
offered orchgit job status -jso
offered orchgit job status we
"""
JOB = {"Status": "running, healthy, twice"}


class Jobs(JsonHttpStub):
    """A cluster with two jobs."""

    def answer(self, request: StubRequest) -> tuple[int, object]:
        return 200, [{"ID": "web", **JOB}, {"ID": "web,old", **JOB}]


@pytest.mark.parametrize(
    ("shell", "described"), [("bash", "{0}"), ("zsh", "{0}:{1}"), ("fish", "{0}\t{1}")]
)
def test_shell_offers_commands_options_and_ids(shell: str, described: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    program = tmp_path / "orchgit"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m orchgit "$@"\n')
    program.chmod(0o755)
    plain = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    with Jobs() as cluster:
        done = subprocess.run(
            [shell, plain, "-c", PROGRAMS[shell] + ASKED],
            env={
                **os.environ,
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "ORCHGIT_ADDR": cluster.url,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    commands, options, ids, _ = done.stdout.split("---\n")
    names = [re.split("[:\t]", line)[0] for line in commands.split()]
    assert {"start", "status"} <= {*names}, done
    assert options.startswith("-json"), done
    assert ids.splitlines() == [
        described.format(name, JOB["Status"]) for name in ("web", "web,old")
    ], done
