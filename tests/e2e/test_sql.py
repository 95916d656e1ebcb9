"""`orchgit sql` on a real server."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Repository
from tests.support.dev_server import DevServer
from tests.support.job_texts import sleeper


def test_question_about_what_runs_is_answered_as_table_json_and_csv(
    shared_dev: DevServer, tmp_path: Path
) -> None:
    repository = Repository(shared_dev, "sql-questions", tmp_path)
    repository.write("asked.nomad.hcl", sleeper("asked"))
    commit = repository.commit("Ask")
    repository.push()
    query = "select job_id, client_status, commit_id from allocations where job_id = 'asked'"
    row = {"job_id": "asked", "client_status": "running", "commit_id": commit}
    assert shared_dev.cli_json("sql", query) == [row]
    assert shared_dev.cli("sql", "-csv", query).out.splitlines() == [
        "job_id,client_status,commit_id",
        f"asked,running,{commit}",
    ]
    shown = shared_dev.cli("sql", query).out.split()
    assert shown == ["job_id", "client_status", "commit_id", "asked", "running", commit]


def test_schema_lists_tables_and_columns(shared_dev: DevServer) -> None:
    shown = shared_dev.cli("sql", "-schema").out
    assert "allocations: Allocations that are still stored, ended ones included." in shown
    assert "  client_status    TEXT" in shown


def test_refused_question_is_one_sentence(shared_dev: DevServer) -> None:
    done = shared_dev.cli("sql", "delete from jobs")
    assert done.code == 1
    assert done.text.strip() == (
        "Error: cannot run this: only SELECT (and WITH ... SELECT) is allowed (status 400)"
    )


def test_question_that_needs_too_much_memory_does_not_hurt_the_server(
    shared_dev: DevServer,
) -> None:
    hungry = """with recursive n(i) as (select 1 union all select i + 1 from n limit 900000)
        select group_concat(printf('%.*c', 3000, 'x')) from n group by i % 900"""
    done = shared_dev.cli("sql", hungry)
    assert done.code == 1
    assert done.text.startswith("Error: cannot"), done.text
    assert shared_dev.cli_json("sql", "select count(*) as n from nodes") == [{"n": 1}]
