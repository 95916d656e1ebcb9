"""Invariant 2: the same log makes byte-equal tables, however it is cut into transactions."""

from __future__ import annotations

import ast
import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import orchgit.replication.apply as apply_package
import orchgit.state.tables as tables_package
from orchgit.model.allocation import DesiredTransition
from orchgit.model.deployment import DeploymentStatusUpdate
from orchgit.model.evaluation import Evaluation
from orchgit.model.node import DrainStrategy
from orchgit.model.plan import AllocStop, PlanResult
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.server import ServerRecord
from orchgit.model.source import Source
from orchgit.model.variable import RootKey, StoredVariable, VariableLock
from orchgit.replication.commands import (
    AcquireVariableLock,
    AllocClientUpdate,
    ApplyPlan,
    ApplyRollout,
    Command,
    DeleteEvaluations,
    DeleteServer,
    DeleteVariable,
    DeregisterJob,
    JobDeletion,
    JobUpsert,
    MoveRefs,
    PutRootKey,
    PutServer,
    RefMove,
    RegisterJob,
    RegisterNode,
    ReleaseVariableLock,
    SetClusterKeyCheck,
    UpdateAllocsFromClient,
    UpdateAllocTransitions,
    UpdateDeploymentStatus,
    UpdateNodeDrain,
    UpdateNodeStatus,
    UpsertEvaluations,
    UpsertSource,
    UpsertVariable,
    encode,
)
from orchgit.replication.events import Effects
from orchgit.replication.machine import apply_entry
from orchgit.state.store import Store
from tests.support.factories import (
    NOW_NS,
    make_deployment,
    make_evaluation,
    make_job,
    make_node,
    make_placements,
)
from tests.support.state import check_invariants

FORBIDDEN = {"time", "random", "uuid", "secrets", "os", "socket", "threading", "asyncio"}
FORBIDDEN |= {"orchgit.clock", "orchgit.ids"}
FORBIDDEN_CALLS = {"now", "utcnow", "today", "time", "time_ns", "urandom", "uuid4", "random"}
APPLY_CODE = sorted(
    file
    for package in (apply_package, tables_package)
    for file in Path(package.__path__[0]).glob("*.py")
)


@pytest.mark.parametrize("file", APPLY_CODE, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_apply_asks_no_clock_and_makes_up_nothing(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            assert not FORBIDDEN & {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module not in FORBIDDEN
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in FORBIDDEN_CALLS, f"line {node.lineno}"


def dump(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    with store.snapshot() as snapshot:
        names = snapshot.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            name: sorted(snapshot.connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for (name,) in names.fetchall()
        }


JOBS = [f"job-{n}" for n in range(3)]
NODES = [make_node(id=f"node-{n}", secret_id="s") for n in range(2)]
EVALS = [f"eval-{n}" for n in range(4)]
DEPLOYMENTS = ["deployment-0", "deployment-1"]
ALLOCS = [f"alloc-{n}" for n in range(40)]


def _job(name: str, priority: int) -> RegisterJob:
    job = make_job(id=name, priority=priority, count=2)
    return RegisterJob(upsert=JobUpsert(job=job), evaluation=_evaluation(EVALS[0], name))


def _evaluation(id_: str, name: str, **fields: object) -> Evaluation:
    """An evaluation never changes its job."""
    return make_evaluation(make_job(id=name), id=f"{id_} of {name}", **fields)


def _plan(name: str, node: int, first: int, deployment: str, stop: int) -> ApplyPlan:
    job = make_job(id=name)
    ids, eval_id = ALLOCS[first : first + 2], f"{EVALS[0]} of {name}"
    placements = make_placements(
        job,
        [NODES[node]],
        2,
        alloc_ids=ids,
        eval_id=eval_id,
        deployment_id=deployment,
    )
    stops = [AllocStop(ALLOCS[stop], NODES[0].id, desired_description="stop")]
    made = make_deployment(job, id=deployment)
    result = PlanResult(placements=[placements], stops=stops, deployment=made)
    return ApplyPlan(
        namespace="default",
        job_id=name,
        job_version=0,
        eval_id=eval_id,
        result=result,
    )


def _rollout(name: str, number: int) -> ApplyRollout:
    rollout = Rollout(id=f"r{number}", source="demo", commit=Commit(id=f"c{number}"))
    job = make_job(id=name, priority=number)
    return ApplyRollout(
        rollout=rollout,
        expected_commit=f"c{number - 1}" if number else "",
        upserts=[JobUpsert(job=job)],
    )


job_names = st.sampled_from(JOBS)
node_ids = st.sampled_from([node.id for node in NODES])
alloc_ids = st.sampled_from(ALLOCS)
LOCKS = ["lock-0", "lock-1"]
variables = st.builds(
    lambda path, sealed: StoredVariable(path=path, key_id="k", sealed=sealed),
    st.sampled_from(["a", "a/b"]),
    st.binary(max_size=4),
)
servers = st.builds(
    lambda address, check: ServerRecord(address=address, cluster_key_check=check),
    st.sampled_from(["10.0.0.1:4648", "10.0.0.2:4648"]),
    st.sampled_from(["", "key-0", "key-1"]),
)
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(lambda server: PutServer(server=server), servers),
    st.builds(lambda server: DeleteServer(address=server.address), servers),
    st.builds(lambda check: SetClusterKeyCheck(check=check), st.sampled_from(["key-0", "key-1"])),
    st.builds(_job, job_names, st.integers(1, 3)),
    st.builds(
        lambda name, purge: DeregisterJob(deletion=JobDeletion("default", name, purge=purge)),
        job_names,
        st.booleans(),
    ),
    st.builds(
        _plan,
        job_names,
        st.integers(0, 1),
        st.integers(0, 38),
        st.sampled_from(DEPLOYMENTS),
        st.integers(0, 39),
    ),
    st.builds(
        lambda node, alloc, status, healthy: UpdateAllocsFromClient(
            node_id=node,
            updates=[AllocClientUpdate(alloc, status, deployment_healthy=healthy)],
        ),
        node_ids,
        alloc_ids,
        st.sampled_from(["running", "failed", "complete"]),
        st.sampled_from([None, True, False]),
    ),
    st.builds(
        lambda node, status, missed: UpdateNodeStatus(
            node_id=node, status=status, missed_heartbeat=missed
        ),
        node_ids,
        st.sampled_from(["ready", "down", "initializing"]),
        st.booleans(),
    ),
    st.builds(
        lambda node, drain: UpdateNodeDrain(
            node_id=node, drain=DrainStrategy() if drain else None, mark_eligible=not drain
        ),
        node_ids,
        st.booleans(),
    ),
    st.builds(
        lambda id_, name, status: UpsertEvaluations(
            evaluations=[_evaluation(id_, name, status=status)]
        ),
        st.sampled_from(EVALS),
        job_names,
        st.sampled_from(["pending", "blocked", "complete"]),
    ),
    st.builds(
        lambda evals, allocs: DeleteEvaluations(eval_ids=evals, alloc_ids=allocs),
        st.lists(st.builds("{} of {}".format, st.sampled_from(EVALS), job_names), max_size=2),
        st.lists(alloc_ids, max_size=3),
    ),
    st.builds(
        lambda id_, status: UpdateDeploymentStatus(
            update=DeploymentStatusUpdate(id_, status, "because")
        ),
        st.sampled_from(DEPLOYMENTS),
        st.sampled_from(["successful", "failed", "paused"]),
    ),
    st.builds(
        lambda alloc: UpdateAllocTransitions(transitions={alloc: DesiredTransition(migrate=True)}),
        alloc_ids,
    ),
    st.builds(_rollout, job_names, st.integers(0, 2)),
    st.builds(
        lambda moves: MoveRefs(source="demo", moves=moves),
        st.lists(
            st.builds(
                RefMove,
                st.sampled_from(["refs/heads/main", "refs/tags/v1"]),
                st.sampled_from(["", "c1", "c2"]),
                st.sampled_from(["", "c1", "c2"]),
            ),
            max_size=2,
        ),
    ),
    st.builds(
        lambda variable, index, lock_id: UpsertVariable(
            variable=variable, expected_modify_index=index, lock_id=lock_id
        ),
        variables,
        st.sampled_from([None, 0, 5]),
        st.sampled_from(["", *LOCKS]),
    ),
    st.builds(
        lambda variable, lock_id: AcquireVariableLock(
            variable=variable, lock=VariableLock(id=lock_id, lock_delay_ns=3_000_000_000)
        ),
        variables,
        st.sampled_from(LOCKS),
    ),
    st.builds(
        lambda variable, lock_id, since: ReleaseVariableLock(
            namespace=variable.namespace,
            path=variable.path,
            lock_id=lock_id,
            unrenewed_since=since,
        ),
        variables,
        st.sampled_from(LOCKS),
        st.one_of(st.none(), st.integers(1, 45)),
    ),
    st.builds(
        lambda variable: DeleteVariable(namespace=variable.namespace, path=variable.path),
        variables,
    ),
)


def apply_log(store: Store, log: list[bytes], cuts: set[int]) -> None:
    txn = store.begin()
    for index, payload in enumerate(log, start=1):
        apply_entry(txn, index, payload, Effects())
        if index in cuts:
            txn.commit(index)
            txn = store.begin()
    txn.commit(len(log))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(COMMANDS, max_size=40), st.sets(st.integers(1, 45), max_size=10))
def test_two_servers_hold_equal_tables(commands: list[Command], cuts: set[int]) -> None:
    begin: list[Command] = [RegisterNode(node=node) for node in NODES]
    begin.append(PutRootKey(key=RootKey(key_id="k")))
    log = []
    everything = [*begin, UpsertSource(source=Source(name="demo")), *commands]
    for command, second in zip(everything, itertools.count()):
        command.now_ns = NOW_NS + second * 1_000_000_000
        log.append(encode(command))
    with tempfile.TemporaryDirectory() as directory:
        one = Store.open(Path(directory) / "one.db")
        two = Store.open(Path(directory) / "two.db")
        apply_log(one, log, cuts=set())
        apply_log(two, log, cuts)
        assert dump(one) == dump(two)
        with one.snapshot() as snapshot:
            check_invariants(snapshot)
        one.close()
        two.close()
