"""Questions in SQL: what they find, and what they cannot do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchgit.errors import InvalidInputError
from orchgit.model.job import Job, JobOrigin
from orchgit.model.node import Namespace, Node
from orchgit.model.plan import PlanResult
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.source import Source
from orchgit.model.variable import RootKey, StoredVariable
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocsFromClient
from orchgit.replication.commands.gitops import ApplyStage, PutSource
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.replication.commands.root_keys import PutRootKey
from orchgit.replication.commands.settings import UpsertNamespaces
from orchgit.replication.commands.variables import UpsertVariable
from orchgit.sql.messages import SqlAnswer, SqlQuestion
from orchgit.sql.views import VIEWS
from orchgit.sql.worker import answer
from orchgit.state.store import Store
from tests.support.factories import make_job, make_node, make_placements
from tests.support.state import apply, open_store

KERNELS = ("5.10.0", "6.1.0")
HIDDEN = "hidden-by-all-means"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes, the job `web` of commit c1 with a failed and a running allocation, `api` of
    namespace `team`, and secrets of each kind."""
    store = open_store(tmp_path_factory.mktemp("sql"))
    nodes = [make_node(secret_id=HIDDEN, name=f"node-{kernel}") for kernel in KERNELS]
    for node, kernel in zip(nodes, KERNELS, strict=True):
        node.attributes = {**node.attributes, "kernel.version": kernel}
    web = make_job(id="web", meta={"team": "a"})
    web.origin = JobOrigin(source="demo", commit_id="c1", author="Ada", file="web.nomad", line=3)
    placements = make_placements(web, nodes, commit_id="c1", rollout_id="r1")
    apply(
        store,
        UpsertNamespaces(namespaces=[Namespace(name="team")]),
        *(RegisterNode(node=node) for node in nodes),
        PutSource(source=Source(name="demo", kind="remote", url=f"https://u:{HIDDEN}@host/a.git")),
        ApplyStage(
            rollout=Rollout(id="r1", source="demo", commit=Commit(id="c1", author="Ada")),
            upserts=[JobUpsert(web)],
        ),
        RegisterJob(upsert=JobUpsert(make_job(id="api", namespace="team"))),
        PutRootKey(key=RootKey(key_id="k", wrapped=HIDDEN.encode())),
        UpsertVariable(variable=StoredVariable(path="a", key_id="k", sealed=HIDDEN.encode())),
    )
    _place(store, web, nodes, placements)
    store.close()
    return store.path


def _place(store: Store, job: Job, nodes: list[Node], placements: Any) -> None:
    failed, running = placements.alloc_ids
    apply(
        store,
        ApplyPlan(
            namespace="default",
            job_id=job.id,
            job_version=0,
            eval_id="e",
            result=PlanResult(placements=[placements]),
        ),
        *(
            UpdateAllocsFromClient(
                node_id=node.id,
                updates=[AllocClientUpdate(alloc_id=alloc_id, client_status=status)],
            )
            for node, alloc_id, status in zip(
                nodes, (failed, running), ("failed", "running"), strict=True
            )
        ),
    )


def ask(database: Path, query: str, **fields: Any) -> SqlAnswer:
    limits: dict[str, Any] = {"max_rows": 100, "max_bytes": 100_000, "time_s": 5.0, **fields}
    return answer(SqlQuestion(database=str(database), query=query, **limits))


def refusal(database: Path, query: str, **fields: Any) -> str:
    with pytest.raises(InvalidInputError) as caught:
        ask(database, query, **fields)
    return str(caught.value)


def test_one_line_finds_the_commit_of_failed_allocations_by_kernel(database: Path) -> None:
    found = ask(
        database,
        """select a.commit_id, a.source, n.name, count(*) from allocations a
            join nodes n on n.id = a.node_id where a.client_status = 'failed'
            and n.attributes ->> '$."kernel.version"' like '5.%' group by 1, 2, 3""",
    )
    assert found.rows == [["c1", "demo", "node-5.10.0", 1]]
    assert found.columns == ["commit_id", "source", "name", "count(*)"]
    assert found.index == 11


def test_jobs_tell_their_commit_author_file_and_meta(database: Path) -> None:
    query = """select id, commit_id, author, file, line, meta ->> '$.team', status
        from jobs where namespace = 'default'"""
    assert ask(database, query).rows == [["web", "c1", "Ada", "web.nomad", 3, "a", "running"]]


def test_task_groups_tell_count_and_drivers(database: Path) -> None:
    query = "select job_id, name, count, drivers from task_groups order by 1"
    web = make_job(id="web").task_groups[0]
    drivers = f'["{web.tasks[0].driver}"]'
    assert ask(database, query).rows == [
        ["api", web.name, web.count, drivers],
        ["web", web.name, web.count, drivers],
    ]


def test_lists_and_maps_of_a_column_become_rows(database: Path) -> None:
    drivers = """select g.job_id, d.value from task_groups g, json_each(g.drivers) d
        where g.job_id = 'web'"""
    web = make_job(id="web").task_groups[0]
    assert ask(database, drivers).rows == [["web", web.tasks[0].driver]]
    kernels = """select a.value from nodes n, json_tree(n.attributes) a
        where a.key = 'kernel.version' order by 1"""
    assert ask(database, kernels).rows == [[each] for each in KERNELS]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_every_column_can_be_asked_for_and_holds_no_secret(database: Path, view: Any) -> None:
    found = ask(database, f"select * from {view.name}")
    assert found.columns == [column.name for column in view.columns]
    assert HIDDEN not in str(found.rows)
    for column in view.columns:
        assert ask(database, f'select "{column.name}" from {view.name}').columns == [column.name]


def test_rows_of_other_namespaces_are_not_there(database: Path) -> None:
    query = "select id from jobs union all select job_id from task_groups"
    assert ask(database, query, namespaces=["team"]).rows == [["api"], ["api"]]
    assert ask(database, query, namespaces=[]).rows == []
    assert ask(database, "select count(*) from nodes", namespaces=[]).rows == [[2]]


def test_rows_beyond_the_limit_are_left_out_and_said_so(database: Path) -> None:
    found = ask(database, "select id from nodes", max_rows=1)
    assert len(found.rows) == 1
    assert found.truncated
    assert not ask(database, "select id from nodes", max_rows=2).truncated


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("delete from jobs", "only SELECT"),
        ("insert into jobs (id) values ('x')", "only SELECT"),
        ("drop table jobs", "only SELECT"),
        ("create table x (y)", "only SELECT"),
        ("attach database '/tmp/x.db' as x", "cannot run this"),
        ("pragma user_version", "only SELECT"),
        ("vacuum into '/tmp/x.db'", "cannot run this"),
        ("select * from variables", "no such table: variables; the tables are allocations,"),
        ("select * from root_keys", "no such table"),
        ("select secret_id from nodes", "no such column: secret_id; `orchgit sql -schema`"),
        ("select body from nodes", "no such column"),
        ("with nodes as (select * from root_keys) select * from nodes", "no such table"),
        ("select sql from sqlite_master", "SQLite's own tables"),
        ("select * from pragma_table_list", "cannot run this"),
        ("select load_extension('/tmp/x.so')", "cannot run this"),
        ("select zeroblob(1000000000)", "zeroblob() is not allowed"),
        ("select 1; select 2", "one statement"),
        ("select", "incomplete input"),
        ("explain select 1", "syntax error"),
        ("begin", "cannot run this"),
        ("select in_body(x'00', 'a')", "no such function"),
    ],
)
def test_all_but_reading_the_tables_is_refused(database: Path, query: str, told: str) -> None:
    assert told in refusal(database, query)


def test_question_without_end_is_given_up(database: Path) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select sum(i) from n"
    assert "cannot answer within 0.2 s" in refusal(database, endless, time_s=0.2)


def test_answer_of_too_many_bytes_is_refused(database: Path) -> None:
    wide = "select printf('%.*c', 90000, 'x') from nodes"
    assert "more than 100000 bytes" in refusal(database, wide)


def test_value_of_too_many_bytes_is_refused(database: Path) -> None:
    assert "too big" in refusal(database, "select length(hex(printf('%.*c', 3000000, 'x')))")


@given(st.text(max_size=60))
def test_no_text_does_more_than_be_refused_or_answered(database: Path, text: str) -> None:
    found: list[list[Any]] = []
    with suppress(InvalidInputError):
        found = ask(database, text, time_s=1.0).rows
    assert HIDDEN not in str(found)
