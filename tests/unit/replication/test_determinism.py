"""Invariant 2: the same log makes byte-equal tables, however it is cut into transactions."""

from __future__ import annotations

import ast
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import orchgit.replication.apply as apply_package
import orchgit.state.tables as tables_package
from orchgit.model.acl import (
    AclAuthMethod,
    AclBindingRule,
    AclPolicy,
    AclRole,
    AclToken,
    OneTimeToken,
    PolicyLink,
    RoleLink,
    SealedSecret,
)
from orchgit.model.allocation import DesiredTransition, DriverAddress
from orchgit.model.author import Author
from orchgit.model.csi import CsiClaim, CsiVolume
from orchgit.model.deployment import DeploymentStatusUpdate
from orchgit.model.drift import JobDrift
from orchgit.model.evaluation import Evaluation
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import ChangedBy
from orchgit.model.node import DrainStrategy, Namespace, NodePool
from orchgit.model.operator import AutopilotConfig, SchedulerConfig
from orchgit.model.plan import AllocStop, AllocUpdate, PlanResult
from orchgit.model.quota import QuotaAmounts, QuotaLimit, QuotaSpec
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.scaling import ScalingEvent
from orchgit.model.server import ServerRecord
from orchgit.model.source import AppliedJob, Source, SourceStatus
from orchgit.model.source_health import SourceHealthChange
from orchgit.model.variable import RootKey, StoredVariable, VariableLock
from orchgit.model.volume import HostVolume
from orchgit.raft_node.committed import Committed
from orchgit.replication.applier import apply_batch
from orchgit.replication.apply.handlers import HANDLERS
from orchgit.replication.commands.acl import (
    BootstrapAcl,
    ChangeAclToken,
    CreateAclToken,
    DeleteAclPolicies,
    DeleteAclRoles,
    DeleteAclTokens,
    PutAclPolicies,
    PutAclRole,
    ResealAclSecrets,
)
from orchgit.replication.commands.acl_logins import (
    DeleteAclAuthMethods,
    DeleteAclBindingRules,
    DeleteOneTimeTokens,
    PutAclAuthMethod,
    PutAclBindingRule,
    PutOneTimeToken,
    UseOneTimeToken,
)
from orchgit.replication.commands.allocations import (
    AllocClientUpdate,
    UpdateAllocs,
    UpdateAllocsFromClient,
    UpdateAllocTransitions,
)
from orchgit.replication.commands.codec import Command, encode
from orchgit.replication.commands.csi_volumes import (
    ClaimCsiVolume,
    DeleteCsiVolume,
    PutCsiVolume,
    ReleaseCsiClaim,
)
from orchgit.replication.commands.deployments import (
    DeleteDeployments,
    FailDeployment,
    PromoteDeployment,
    ResumeDeployment,
    SetDeploymentHealth,
    UpdateDeploymentStatus,
)
from orchgit.replication.commands.drift import DriftNote, RecordDrift
from orchgit.replication.commands.entry import AuthoredEntry, Entry, Noop
from orchgit.replication.commands.evaluations import DeleteEvaluations, UpsertEvaluations
from orchgit.replication.commands.gitops import (
    ApplyCommit,
    ApplyRollout,
    ApplyStage,
    DefineSource,
    DeleteRollouts,
    DeleteSource,
    MoveRefs,
    PutSource,
    RecordGates,
    RecordProgress,
    RecordRollout,
    RecordSourceHealth,
    RefMove,
    RemoveSource,
    RenameSource,
    SetJobOwner,
    SetSourceStatus,
    StoreSource,
    UpdateSourceStatus,
    UpsertSource,
)
from orchgit.replication.commands.jobs import (
    ChangeJob,
    DeleteJobVersionTag,
    DeregisterJob,
    JobDeletion,
    JobUpsert,
    RecordPeriodicLaunch,
    RecordScalingEvent,
    RegisterJob,
    SetJobStability,
    SetJobVersionTag,
    StopJob,
)
from orchgit.replication.commands.nodes import (
    DeleteNodes,
    RegisterNode,
    SetNodeDrain,
    UpdateNodeDrain,
    UpdateNodeEligibility,
    UpdateNodeStatus,
)
from orchgit.replication.commands.plans import ApplyPlan, ApplyPlanResult
from orchgit.replication.commands.restoring import (
    AbortRestore,
    AddRestoreChunk,
    BeginRestore,
    CommitRestore,
)
from orchgit.replication.commands.root_keys import DeleteRootKey, PutRootKey
from orchgit.replication.commands.servers import (
    DeleteServer,
    PutServer,
    SetClusterKeyCheck,
    SetServerStatus,
)
from orchgit.replication.commands.settings import (
    DeleteNamespaces,
    DeleteNodePools,
    DeleteQuotas,
    PutQuotas,
    SetAutopilotConfig,
    SetClusterId,
    SetSchedulerConfig,
    UpsertNamespaces,
    UpsertNodePools,
)
from orchgit.replication.commands.variables import (
    AcquireVariableLock,
    DeleteVariable,
    ReleaseVariableLock,
    RenewVariableLock,
    ResealVariables,
    UpsertVariable,
)
from orchgit.replication.commands.volumes import (
    DeleteHostVolume,
    DeleteVolumeClaim,
    SetHostVolumeStates,
    UpsertHostVolume,
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
from tests.support.parsed_source import parsed_source
from tests.support.state import check_invariants

ROOT = Path(__file__).parents[3]
FORBIDDEN = {"time", "random", "uuid", "secrets", "os", "socket", "threading", "asyncio"}
FORBIDDEN |= {"orchgit.clock", "orchgit.ids", "orchgit.settings", "tempfile", "platform"}
FORBIDDEN_NAMES = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "perf_counter"}
FORBIDDEN_NAMES |= {"urandom", "uuid4", "random", "environ", "getenv", "getpid", "id", "hash"}
BESIDE = {
    "orchgit.clock": "only named by `state.watch`",
    "orchgit.state.watch": "who waits for a change; after the commit, on the event loop",
    "orchgit.state.store": "opens the file, hands out snapshots; calls no handler",
    "orchgit.replication.events": "effects are plain lists; feeds deliver them after the commit",
}
"""What handlers can reach by imports and do not run."""
STARTS = (
    "orchgit.replication.machine",
    "orchgit.replication.apply.handlers",
    "orchgit.state.transaction",
)


def _file(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    return next(
        (one for one in (path.with_suffix(".py"), path / "__init__.py") if one.exists()), None
    )


def _imports(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def _reachable() -> dict[str, Path]:
    """Every module of ours that the apply path can get at."""
    found: dict[str, Path] = {}
    waiting = list(STARTS)
    while waiting:
        module = waiting.pop()
        file = _file(module) if module.startswith(("orchgit", "jobspec")) else None
        if file is not None and module not in found:
            found[module] = file
            waiting.extend(_imports(parsed_source(file.read_text())))
    return found


APPLY_CODE = {name: file for name, file in sorted(_reachable().items()) if name not in BESIDE}


def test_whole_apply_path_is_looked_at() -> None:
    for package in (apply_package, tables_package):
        for file in Path(package.__path__[0]).glob("[a-z]*.py"):
            assert file in APPLY_CODE.values(), file
    assert set(BESIDE) <= set(_reachable()), "what is not reached needs no exception"


def _is_unordered(node: ast.expr) -> bool:
    """A set that is written or made right here; its order is another one in each process."""
    if isinstance(node, ast.BinOp):
        return _is_unordered(node.left) or _is_unordered(node.right)
    is_made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return isinstance(node, ast.Set | ast.SetComp) or (
        is_made and node.func.id in ("set", "frozenset")  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize("module", APPLY_CODE)
def test_apply_asks_no_clock_and_makes_up_nothing(module: str) -> None:
    tree = parsed_source(APPLY_CODE[module].read_text())
    assert not FORBIDDEN & _imports(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            assert node.attr not in FORBIDDEN_NAMES - {"id"}, f"line {node.lineno}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_NAMES, f"line {node.lineno}"
            if node.func.id in ("list", "tuple") and node.args:
                assert not _is_unordered(node.args[0]), f"line {node.lineno}"
        elif isinstance(node, ast.For | ast.comprehension):
            assert not _is_unordered(node.iter), f"a set in line {node.iter.lineno}"


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


def _plan_result(name: str, changed: int, version: int | None) -> ApplyPlanResult:
    followup = f"{EVALS[0]} of {name}"
    update = AllocUpdate(ALLOCS[changed], job_version=version, followup_eval_id=followup)
    return ApplyPlanResult(
        namespace="default",
        job_id=name,
        job_version=0,
        eval_id=f"{EVALS[-1]} of {name}",
        result=PlanResult(updates=[update]),
    )


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


def _commit(name: str, number: int, forgets: bool) -> ApplyCommit:
    made = _rollout(name, number)
    applied = AppliedJob(
        namespace="default", job_id=name, source="demo", content_id="c", spec_id="s"
    )
    return ApplyCommit(
        **msgspec.structs.asdict(made),
        remember=[] if forgets else [applied],
        forget=[("default", name)] if forgets else [],
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
source_names = st.sampled_from(["demo", "other"])
named = st.sampled_from(["one", "two"])
restore_ids = st.sampled_from(["x", "y"])
acl_tokens = st.builds(
    lambda accessor, secret, roles, type_: AclToken(
        accessor,
        secret_hash=secret,
        secret=SealedSecret("k", b"s"),
        type=type_,
        roles=[RoleLink(id_, "n") for id_ in roles],
    ),
    named,
    st.sampled_from(["s0", "s1", "s2"]),
    st.lists(named, max_size=2),
    st.sampled_from(["client", "management"]),
)
auth_methods = st.builds(
    lambda name, default: AclAuthMethod(name, "JWT", default=default), named, st.booleans()
)
GENERATED: dict[type[Entry], st.SearchStrategy[Any]] = {
    PutServer: st.builds(lambda server: PutServer(server=server), servers),
    DeleteServer: st.builds(lambda server: DeleteServer(address=server.address), servers),
    SetClusterKeyCheck: st.builds(
        lambda check: SetClusterKeyCheck(check=check), st.sampled_from(["key-0", "key-1"])
    ),
    RegisterJob: st.builds(_job, job_names, st.integers(1, 3)),
    DeregisterJob: st.builds(
        lambda name, purge: DeregisterJob(deletion=JobDeletion("default", name, purge=purge)),
        job_names,
        st.booleans(),
    ),
    ApplyPlan: st.builds(
        _plan,
        job_names,
        st.integers(0, 1),
        st.integers(0, 38),
        st.sampled_from(DEPLOYMENTS),
        st.integers(0, 39),
    ),
    ApplyPlanResult: st.builds(
        _plan_result, job_names, st.integers(0, 39), st.sampled_from([None, 0])
    ),
    UpdateAllocsFromClient: st.builds(
        lambda node, alloc, status, healthy: UpdateAllocsFromClient(
            node_id=node,
            updates=[AllocClientUpdate(alloc, status, deployment_healthy=healthy)],
        ),
        node_ids,
        alloc_ids,
        st.sampled_from(["running", "failed", "complete"]),
        st.sampled_from([None, True, False]),
    ),
    UpdateAllocs: st.builds(
        lambda node, alloc, status, address: UpdateAllocs(
            node_id=node,
            updates=[AllocClientUpdate(alloc, status, driver_addresses={"web": address})],
        ),
        node_ids,
        alloc_ids,
        st.sampled_from(["running", "failed", "complete"]),
        st.builds(DriverAddress, ip=st.sampled_from(["172.20.0.2", "172.20.0.3"])),
    ),
    UpdateNodeStatus: st.builds(
        lambda node, status, missed: UpdateNodeStatus(
            node_id=node, status=status, missed_heartbeat=missed
        ),
        node_ids,
        st.sampled_from(["ready", "down", "initializing"]),
        st.booleans(),
    ),
    SetNodeDrain: st.builds(
        lambda node, drain, completed: SetNodeDrain(
            node_id=node,
            drain=DrainStrategy() if drain else None,
            completed=completed,
            meta={"message": "disk"} if drain else None,
        ),
        node_ids,
        st.booleans(),
        st.booleans(),
    ),
    UpdateNodeDrain: st.builds(
        lambda node, drain: UpdateNodeDrain(
            node_id=node, drain=DrainStrategy() if drain else None, mark_eligible=not drain
        ),
        node_ids,
        st.booleans(),
    ),
    UpsertEvaluations: st.builds(
        lambda id_, name, status: UpsertEvaluations(
            evaluations=[_evaluation(id_, name, status=status)]
        ),
        st.sampled_from(EVALS),
        job_names,
        st.sampled_from(["pending", "blocked", "complete"]),
    ),
    DeleteEvaluations: st.builds(
        lambda evals, allocs: DeleteEvaluations(eval_ids=evals, alloc_ids=allocs),
        st.lists(st.builds("{} of {}".format, st.sampled_from(EVALS), job_names), max_size=2),
        st.lists(alloc_ids, max_size=3),
    ),
    UpdateDeploymentStatus: st.builds(
        lambda id_, status: UpdateDeploymentStatus(
            update=DeploymentStatusUpdate(id_, status, "because")
        ),
        st.sampled_from(DEPLOYMENTS),
        st.sampled_from(["successful", "failed", "paused"]),
    ),
    UpdateAllocTransitions: st.builds(
        lambda alloc: UpdateAllocTransitions(transitions={alloc: DesiredTransition(migrate=True)}),
        alloc_ids,
    ),
    ApplyRollout: st.builds(_rollout, job_names, st.integers(0, 2)),
    MoveRefs: st.builds(
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
    UpsertVariable: st.builds(
        lambda variable, index, lock_id: UpsertVariable(
            variable=variable, expected_modify_index=index, lock_id=lock_id
        ),
        variables,
        st.sampled_from([None, 0, 5]),
        st.sampled_from(["", *LOCKS]),
    ),
    AcquireVariableLock: st.builds(
        lambda variable, lock_id: AcquireVariableLock(
            variable=variable, lock=VariableLock(id=lock_id, lock_delay_ns=3_000_000_000)
        ),
        variables,
        st.sampled_from(LOCKS),
    ),
    ReleaseVariableLock: st.builds(
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
    DeleteVariable: st.builds(
        lambda variable: DeleteVariable(namespace=variable.namespace, path=variable.path),
        variables,
    ),
    Noop: st.builds(Noop),
    SetClusterId: st.builds(SetClusterId, cluster_id=st.sampled_from(["one", "two"])),
    RecordRollout: st.builds(
        lambda number, status: RecordRollout(
            rollout=Rollout(
                id=f"r{number}", source="demo", commit=Commit(id=f"c{number}"), status=status
            )
        ),
        st.integers(0, 2),
        st.sampled_from(["progressing", "healthy", "failed"]),
    ),
    UpsertSource: st.builds(
        lambda name, url: UpsertSource(source=Source(name=name, url=url)),
        source_names,
        st.sampled_from(["", "https://example.com/a.git"]),
    ),
    UpdateSourceStatus: st.builds(
        lambda name, error: UpdateSourceStatus(name=name, status=SourceStatus(last_error=error)),
        source_names,
        st.sampled_from(["", "cannot fetch"]),
    ),
    DeleteSource: st.builds(DeleteSource, name=source_names),
    StoreSource: st.builds(
        lambda name, expected: StoreSource(
            source=Source(name=name), expected_modify_index=expected
        ),
        source_names,
        st.integers(0, 6),
    ),
    RenameSource: st.builds(
        lambda name, new_name, released: RenameSource(
            name=name, new_name=new_name, released=[("default", each) for each in released]
        ),
        source_names,
        source_names,
        st.lists(job_names, max_size=2, unique=True),
    ),
    RemoveSource: st.builds(
        lambda name, stop, jobs: RemoveSource(
            name=name,
            stop=stop,
            deletions=[JobDeletion("default", job) for job in jobs] if stop else [],
        ),
        source_names,
        st.booleans(),
        st.lists(job_names, max_size=2, unique=True),
    ),
    SetJobOwner: st.builds(
        SetJobOwner,
        namespace=st.just("default"),
        job_id=job_names,
        source=st.sampled_from(["", "demo"]),
        released_from=st.sampled_from(["", "demo"]),
        expected_source=st.sampled_from(["", "demo"]),
    ),
    PutSource: st.builds(
        lambda name, expected: PutSource(source=Source(name=name), expected_modify_index=expected),
        source_names,
        st.one_of(st.none(), st.integers(0, 6)),
    ),
    DefineSource: st.builds(
        lambda name, policies: DefineSource(source=Source(name=name, policies=policies)),
        source_names,
        st.lists(named, max_size=2),
    ),
    SetSourceStatus: st.builds(
        lambda name, error: SetSourceStatus(name=name, status=SourceStatus(last_error=error)),
        source_names,
        st.sampled_from(["", "cannot fetch"]),
    ),
    ApplyStage: st.builds(
        lambda name, number, forgets: ApplyStage(
            **msgspec.structs.asdict(_commit(name, number, forgets)),
            hold=[] if forgets else [HeldVersion(job_id=name, source="demo", spec_id="s")],
            unhold=[("default", name)] if forgets else [],
            renew=[("default", name)],
        ),
        job_names,
        st.integers(0, 2),
        st.booleans(),
    ),
    ChangeJob: st.builds(
        lambda name, priority: ChangeJob(
            upsert=_job(name, priority).upsert, changed_by=ChangedBy(via="register", user="ada")
        ),
        job_names,
        st.integers(1, 3),
    ),
    StopJob: st.builds(
        lambda name, purge: StopJob(
            deletion=JobDeletion("default", name, purge=purge),
            changed_by=ChangedBy(via="stop", user="ada"),
        ),
        job_names,
        st.booleans(),
    ),
    RecordDrift: st.builds(
        lambda name, cleared, note: RecordDrift(
            as_of=20,
            put=[JobDrift("default", name, "demo")],
            clear=[("default", cleared)],
            notes=[DriftNote("default", name, note)],
        ),
        job_names,
        job_names,
        st.sampled_from(["", "why"]),
    ),
    RecordSourceHealth: st.builds(
        lambda name, status: RecordSourceHealth(changes=[SourceHealthChange(name, status=status)]),
        st.sampled_from(["demo", "gone"]),
        st.sampled_from(["healthy", "degraded"]),
    ),
    RecordProgress: st.builds(
        lambda number, status: RecordProgress(
            rollout=Rollout(
                id=f"r{number}", source="demo", commit=Commit(id=f"c{number}"), status=status
            ),
            hold=[HeldVersion(job_id=f"job-{number}", source="demo", spec_id="s")],
        ),
        st.integers(0, 2),
        st.sampled_from(["progressing", "healthy", "failed"]),
    ),
    RecordGates: st.builds(
        lambda number, status, expected: RecordGates(
            rollout=Rollout(
                id=f"r{number}", source="demo", commit=Commit(id=f"c{number}"), status=status
            ),
            expected_modify_index=expected,
        ),
        st.integers(0, 2),
        st.sampled_from(["pending", "awaiting_approval", "rejected"]),
        st.integers(0, 6),
    ),
    ApplyCommit: st.builds(_commit, job_names, st.integers(0, 2), st.booleans()),
    DeleteRollouts: st.builds(DeleteRollouts, ids=st.lists(st.sampled_from(["r0", "r1"]))),
    SetJobStability: st.builds(
        SetJobStability,
        namespace=st.just("default"),
        job_id=job_names,
        version=st.integers(0, 2),
        stable=st.booleans(),
    ),
    SetJobVersionTag: st.builds(
        SetJobVersionTag,
        namespace=st.just("default"),
        job_id=job_names,
        version=st.sampled_from([None, 0, 1, 2]),
        name=named,
        description=named,
    ),
    DeleteJobVersionTag: st.builds(
        DeleteJobVersionTag, namespace=st.just("default"), job_id=job_names, name=named
    ),
    RecordScalingEvent: st.builds(
        RecordScalingEvent,
        namespace=st.just("default"),
        job_id=job_names,
        group=named,
        event=st.builds(
            ScalingEvent,
            time_ns=st.just(NOW_NS),
            count=st.sampled_from([None, 0, 3]),
            message=named,
            meta=st.sampled_from([None, {"a": 1}]),
        ),
    ),
    RegisterNode: st.builds(
        lambda node, name: RegisterNode(node=msgspec.structs.replace(node, name=name)),
        st.sampled_from(NODES),
        st.sampled_from(["a", "b"]),
    ),
    UpdateNodeEligibility: st.builds(
        UpdateNodeEligibility,
        node_id=node_ids,
        eligibility=st.sampled_from(["eligible", "ineligible"]),
    ),
    DeleteNodes: st.builds(DeleteNodes, node_ids=st.lists(node_ids, max_size=2)),
    PromoteDeployment: st.builds(
        PromoteDeployment,
        deployment_id=st.sampled_from(DEPLOYMENTS),
        groups=st.sampled_from([[], ["web"]]),
    ),
    ResumeDeployment: st.builds(ResumeDeployment, deployment_id=st.sampled_from(DEPLOYMENTS)),
    FailDeployment: st.builds(
        lambda id_, name, expected: FailDeployment(
            update=DeploymentStatusUpdate(id_, "failed", "because"),
            job=make_job(id=name) if expected is not None else None,
            expected_modify_index=expected,
        ),
        st.sampled_from(DEPLOYMENTS),
        job_names,
        st.sampled_from([None, 0, 1, 2]),
    ),
    SetDeploymentHealth: st.builds(
        SetDeploymentHealth,
        deployment_id=st.sampled_from(DEPLOYMENTS),
        healthy_alloc_ids=st.lists(alloc_ids, max_size=2),
        unhealthy_alloc_ids=st.lists(alloc_ids, max_size=2),
    ),
    DeleteDeployments: st.builds(
        DeleteDeployments, ids=st.lists(st.sampled_from(DEPLOYMENTS), max_size=2)
    ),
    RecordPeriodicLaunch: st.builds(
        RecordPeriodicLaunch,
        namespace=st.just("default"),
        job_id=job_names,
        launch_time_ns=st.integers(1, 3),
    ),
    SetSchedulerConfig: st.builds(
        lambda algorithm, index: SetSchedulerConfig(
            config=SchedulerConfig(scheduler_algorithm=algorithm), expected_modify_index=index
        ),
        st.sampled_from(["binpack", "spread"]),
        st.sampled_from([None, 0, 7]),
    ),
    SetAutopilotConfig: st.builds(
        lambda cleans, index: SetAutopilotConfig(
            config=AutopilotConfig(cleanup_dead_servers=cleans), expected_modify_index=index
        ),
        st.booleans(),
        st.sampled_from([None, 0, 7]),
    ),
    UpsertNodePools: st.builds(
        lambda name, text: UpsertNodePools(pools=[NodePool(name, text)]), named, named
    ),
    DeleteNodePools: st.builds(DeleteNodePools, names=st.lists(named, max_size=2)),
    UpsertNamespaces: st.builds(
        lambda name, text: UpsertNamespaces(namespaces=[Namespace(name, text)]), named, named
    ),
    DeleteNamespaces: st.builds(DeleteNamespaces, names=st.lists(named, max_size=2)),
    UpsertHostVolume: st.builds(
        lambda id_, node, state: UpsertHostVolume(
            volume=HostVolume(id=id_, name=id_, node_id=node, state=state)
        ),
        named,
        node_ids,
        st.sampled_from(["pending", "ready"]),
    ),
    SetHostVolumeStates: st.builds(
        SetHostVolumeStates,
        states=st.dictionaries(named, st.sampled_from(["ready", "unavailable"]), max_size=2),
    ),
    PutCsiVolume: st.builds(
        lambda id_, plugin: PutCsiVolume(volume=CsiVolume(id=id_, plugin_id=plugin)), named, named
    ),
    DeleteCsiVolume: st.builds(DeleteCsiVolume, volume_id=named, force=st.booleans()),
    ClaimCsiVolume: st.builds(
        lambda id_, alloc, mode: ClaimCsiVolume(
            volume_id=id_,
            claim=CsiClaim(alloc_id=alloc, mode=mode, access_mode="single-node-writer"),
        ),
        named,
        named,
        st.sampled_from(["read", "write"]),
    ),
    ReleaseCsiClaim: st.builds(ReleaseCsiClaim, volume_id=named, alloc_id=named),
    DeleteHostVolume: st.builds(DeleteHostVolume, namespace=st.just("default"), volume_id=named),
    DeleteVolumeClaim: st.builds(DeleteVolumeClaim, claim_id=named),
    RenewVariableLock: st.builds(
        lambda variable, lock_id: RenewVariableLock(
            namespace=variable.namespace, path=variable.path, lock_id=lock_id
        ),
        variables,
        st.sampled_from(LOCKS),
    ),
    ResealVariables: st.builds(ResealVariables, variables=st.lists(variables, max_size=2)),
    PutRootKey: st.builds(
        lambda key_id, first: PutRootKey(key=RootKey(key_id=key_id), only_first=first),
        st.sampled_from(["k", "k2"]),
        st.booleans(),
    ),
    DeleteRootKey: st.builds(DeleteRootKey, key_id=st.sampled_from(["k", "k2"])),
    SetServerStatus: st.builds(
        lambda server, status: SetServerStatus(address=server.address, status=status),
        servers,
        st.sampled_from(["alive", "failed"]),
    ),
    BeginRestore: st.builds(BeginRestore, restore_id=restore_ids),
    AddRestoreChunk: st.builds(
        AddRestoreChunk, restore_id=restore_ids, seq=st.integers(0, 1), data=st.binary(max_size=4)
    ),
    CommitRestore: st.builds(
        CommitRestore,
        restore_id=restore_ids,
        sha256=st.just(hashlib.sha256(b"").hexdigest()),
    ),
    AbortRestore: st.builds(AbortRestore, restore_id=restore_ids),
    BootstrapAcl: st.builds(BootstrapAcl, token=acl_tokens, reset_index=st.sampled_from([0, 5])),
    CreateAclToken: st.builds(CreateAclToken, token=acl_tokens),
    ChangeAclToken: st.builds(ChangeAclToken, token=acl_tokens),
    DeleteAclTokens: st.builds(
        DeleteAclTokens, accessor_ids=st.lists(named, max_size=2), missing_ok=st.booleans()
    ),
    PutAclPolicies: st.builds(
        lambda name, rules: PutAclPolicies(policies=[AclPolicy(name, rules=rules)]), named, named
    ),
    DeleteAclPolicies: st.builds(DeleteAclPolicies, names=st.lists(named, max_size=2)),
    PutAclRole: st.builds(
        lambda id_, name: PutAclRole(role=AclRole(id_, name, policies=[PolicyLink(name)])),
        named,
        named,
    ),
    DeleteAclRoles: st.builds(DeleteAclRoles, role_ids=st.lists(named, max_size=2)),
    PutAclAuthMethod: st.builds(
        PutAclAuthMethod, method=auth_methods, expected_modify_index=st.sampled_from([0, 0, 5])
    ),
    DeleteAclAuthMethods: st.builds(DeleteAclAuthMethods, names=st.lists(named, max_size=2)),
    PutAclBindingRule: st.builds(
        lambda id_, method: PutAclBindingRule(rule=AclBindingRule(id_, auth_method=method)),
        named,
        named,
    ),
    DeleteAclBindingRules: st.builds(DeleteAclBindingRules, rule_ids=st.lists(named, max_size=2)),
    PutOneTimeToken: st.builds(
        lambda secret, accessor, expires_s: PutOneTimeToken(
            token=OneTimeToken(secret, accessor, NOW_NS + expires_s * 1_000_000_000)
        ),
        named,
        named,
        st.integers(0, 60),
    ),
    UseOneTimeToken: st.builds(UseOneTimeToken, secret_hash=named),
    DeleteOneTimeTokens: st.builds(DeleteOneTimeTokens, secret_hashes=st.lists(named, max_size=2)),
    PutQuotas: st.builds(
        lambda name, cpu: PutQuotas(
            quotas=[QuotaSpec(name, limits=[QuotaLimit("global", QuotaAmounts(cpu))])]
        ),
        named,
        st.integers(-1, 5),
    ),
    DeleteQuotas: st.builds(DeleteQuotas, names=st.lists(named, max_size=2)),
    ResealAclSecrets: st.builds(
        ResealAclSecrets,
        tokens=st.lists(acl_tokens, max_size=2),
        methods=st.lists(auth_methods, max_size=2),
    ),
}
PLAIN: st.SearchStrategy[Command] = st.one_of(*GENERATED.values())
AUTHORED: st.SearchStrategy[Command] = st.builds(
    lambda inner, name: AuthoredEntry(
        now_ns=inner.now_ns, author=Author(name, name), entry=encode(inner)
    ),
    PLAIN,
    named,
)
COMMANDS = st.one_of(PLAIN, PLAIN, AUTHORED)
OFTEN: st.SearchStrategy[Command] = st.one_of(
    *(
        GENERATED[kind]
        for kind in (RegisterJob, ApplyPlan, UpdateAllocsFromClient, ApplyRollout, UpsertVariable)
    )
)
"""What the others act on."""


def test_every_command_is_generated() -> None:
    """A new one has to be added above, or nobody knows whether its handler is deterministic."""
    assert set(GENERATED) == set(HANDLERS)


@pytest.mark.parametrize("kind", GENERATED, ids=lambda kind: kind.__name__)
def test_generated_commands_have_the_type_of_their_strategy(kind: type[Entry]) -> None:
    @settings(max_examples=3, deadline=None, database=None)
    @given(GENERATED[kind])
    def check(command: Entry) -> None:
        assert type(command) is kind

    check()


def as_log(commands: list[Command]) -> list[bytes]:
    """The entries, behind those that most of them need; one each second."""
    begin: list[Command] = [RegisterNode(node=node) for node in NODES]
    begin.append(PutRootKey(key=RootKey(key_id="k")))
    log = []
    everything = [*begin, UpsertSource(source=Source(name="demo")), *commands]
    for command, second in zip(everything, itertools.count()):
        command.now_ns = NOW_NS + second * 1_000_000_000
        log.append(encode(command))
    return log


def apply_log(store: Store, log: list[bytes]) -> None:
    """One transaction, a savepoint for each entry."""
    txn = store.begin()
    for index, payload in enumerate(log, start=1):
        apply_entry(txn, index, payload, Effects())
    txn.commit(len(log))


def apply_batches(store: Store, log: list[bytes], cuts: set[int]) -> None:
    """As the applier does, in batches that end at the cuts."""
    batch = []
    for index, payload in enumerate(log, start=1):
        batch.append(Committed(index, payload))
        if index in cuts or index == len(log):
            apply_batch(store, batch)
            batch = []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.one_of(COMMANDS, OFTEN), max_size=40),
    st.sets(st.integers(1, 45), max_size=10),
)
def test_two_servers_hold_equal_tables(commands: list[Command], cuts: set[int]) -> None:
    log = as_log(commands)
    with tempfile.TemporaryDirectory() as directory:
        one = Store.open(Path(directory) / "one.db")
        two = Store.open(Path(directory) / "two.db")
        apply_log(one, log)
        apply_batches(two, log, cuts)
        assert dump(one) == dump(two)
        with one.snapshot() as snapshot:
            check_invariants(snapshot)
        one.close()
        two.close()


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(COMMANDS, OFTEN), min_size=150, max_size=200))
def test_another_order_of_sets_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, commands: list[Command]
) -> None:
    """Strings hash differently in each process: results, effects and rows are the same all the
    same, and in the same order."""
    directory = tmp_path_factory.mktemp("log")
    log = directory / "log"
    log.write_bytes(msgspec.msgpack.encode(as_log(commands)))
    said = set()
    for seed in ("1", "2", "3"):
        (directory / seed).mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.apply_log", str(log), str(directory / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        said.add(done.stdout)
    assert len(said) == 1
