"""`orchgit rollout watch`: what a push shows, exit codes for CI, and waiting for a commit."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.e2e.conftest import Repository
from tests.support.dev_server import git_environment
from tests.support.job_texts import sleeper, web

RECIPE = 'git push -o detach origin main && {orchgit} rollout watch "$(git rev-parse HEAD)"'


def run_recipe(repository: Repository) -> subprocess.CompletedProcess[str]:
    """What CI does with a commit, in a shell."""
    return subprocess.run(
        ["sh", "-c", RECIPE.format(orchgit=f"{sys.executable} -m orchgit")],
        cwd=repository.path,
        env={**git_environment(), "ORCHGIT_ADDR": repository.server.address},
        capture_output=True,
        text=True,
        timeout=90,
    )


def test_recipe_for_ci_ends_with_the_addresses_of_healthy_services(repository: Repository) -> None:
    repository.write("site.nomad.hcl", web(repository.name, "hello"))
    commit = repository.commit("A page")
    done = run_recipe(repository)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == f"Commit {commit[:8]} by Ada: A page"
    assert any(line.startswith("Healthy after ") for line in lines)
    [service] = repository.server.get(f"/v1/service/{repository.name}")
    assert lines[-1] == f"  {repository.name}: {service['Address']}:{service['Port']}"
    assert "\x1b" not in done.stdout
    repository.write("site.nomad.hcl", web(repository.name, "hello again"))
    repository.commit("Another page")
    assert f"remote:   {repository.name}: {service['Address']}:" in repository.push()


def test_recipe_for_ci_fails_with_the_reason_and_the_command_to_look_further(
    repository: Repository,
) -> None:
    command = "printf 'no database\\\\033[2J\\\\n' >&2; exit 7"
    repository.write("r.nomad.hcl", sleeper(repository.name, command=command, is_bad=True))
    commit = repository.commit("Never healthy")
    done = run_recipe(repository)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "task main: exit code 7" in done.stdout
    assert "| no database\\x1b[2J" in done.stdout
    assert "look further: orchgit alloc logs -stderr " in done.stdout
    assert "Failed after " in done.stdout

    status = repository.server.cli("rollout", "status", commit[:7])
    assert "| no database" in status.out
    [ended] = json.loads(repository.server.cli("rollout", "watch", commit[:7], "-json").out)
    assert ended["Rollout"]["Commit"]["ID"] == commit
    assert ended["Failures"][0]["Reason"].startswith("exit code 7")
    assert ended["Services"] == []
    failed = repository.server.cli_json("rollout", "list", "-status", "failed", "-commit", commit)
    assert [each["ID"] for each in failed] == [ended["Rollout"]["ID"]]
    assert repository.server.cli("rollout", "list", "-status", "sad").code == 1


def test_watch_waits_for_the_rollout_of_a_commit_that_is_pushed_later(
    repository: Repository,
) -> None:
    repository.write("r.nomad.hcl", sleeper(repository.name))
    commit = repository.commit("Later")
    with ThreadPoolExecutor() as pool:
        watching = pool.submit(repository.server.cli, "rollout", "watch", commit)
        repository.push("-o", "detach")
        done = watching.result()
    assert done.code == 0, done.text
    assert "Healthy after " in done.out
    by_source = repository.server.cli("rollout", "watch", repository.name)
    assert by_source.code == 0, by_source.text


def test_watch_of_what_never_comes_exits_with_2_and_says_why(repository: Repository) -> None:
    server = repository.server
    assert server.cli("source", "pause", repository.name).code == 0
    repository.write("r.nomad.hcl", sleeper(repository.name))
    commit = repository.commit("Held up")
    repository.push()
    options = ("-timeout", "1s", "-source", repository.name)
    late = server.cli("rollout", "watch", commit, *options)
    assert late.code == 2, late.text
    assert f"source {repository.name} is paused" in late.err
    unknown = server.cli("rollout", "watch", "no-such-source")
    assert unknown.code == 2, unknown.text
    assert "cannot find a source, commit or rollout 'no-such-source'" in unknown.err


def test_watch_gives_up_on_a_rollout_that_does_not_end_in_time(repository: Repository) -> None:
    slow = sleeper(repository.name).replace('"100ms"', '"30s"')
    repository.write("r.nomad.hcl", slow)
    commit = repository.commit("Slow")
    repository.push("-o", "detach")
    done = repository.server.cli("rollout", "watch", commit, "-timeout", "1s")
    assert done.code == 2, done.text
    assert "cannot wait longer: rollout " in done.err


def test_watch_of_a_refused_commit_shows_its_problems(repository: Repository) -> None:
    repository.write("bad.nomad.hcl", 'job "x" {\n  tpye = "batch"\n}\n')
    commit = repository.commit("Misspelt")
    repository.refused_push()
    done = repository.server.cli("rollout", "watch", commit)
    assert done.code == 1, done.text
    assert "bad.nomad.hcl:2:3: " in done.out
