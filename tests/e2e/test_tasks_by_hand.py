"""A person looks into running tasks: logs of a job, commands in a task, completed ids."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.e2e.conftest import Repository
from tests.support.job_texts import sleeper
from tests.support.polling import until_blocking

COMMAND = "echo out; echo err >&2; exec sleep 1000000"


def completed(address: str, words: str) -> list[str]:
    """What bash offers after these words."""
    environment = {
        **os.environ,
        "ORCHGIT_ADDR": address,
        "_ORCHGIT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-m", "orchgit"], env=environment, capture_output=True, text=True
    )
    return [line.removeprefix("plain,") for line in done.stdout.splitlines()]


def test_logs_commands_and_completion_reach_every_allocation(repository: Repository) -> None:
    server, name = repository.server, repository.name
    repository.write("r.nomad.hcl", sleeper(name, count=2, command=COMMAND))
    repository.commit("Two tasks that write")
    repository.push()
    first, second = (each["ID"] for each in server.running_allocations(name, 2))

    def written() -> bool:
        done = server.cli("logs", name)
        return done.out.count("| out") == 2 and done.err.count("| err") == 2

    assert until_blocking(written)
    lines = server.cli("logs", name, "-stdout").out.splitlines()
    assert {line.split()[0] for line in lines} == {first[:8], second[:8]}

    hello = server.cli("alloc", "exec", "-i=false", first[:8], "/bin/sh", "-c", "echo hi; exit 3")
    assert (hello.code, hello.out) == (3, "hi\n")
    assert completed(server.address, f"orchgit job status {name[:8]}") == [name]
    assert first in completed(server.address, "orchgit alloc logs ")

    wrong = server.cli("job", "status", f"{name}x")
    assert f"did you mean '{name}'?" in wrong.err
