"""One server in this process on virtual time: log, store, leader, scheduler, gitops and a node.

Everything is the real part, but for the node: its tasks do at once what their job file says (see
`job_text`). A step of a test ends with `settle`, so what comes next does not depend on chance.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobspec.files import CurrentDirectory
from orchgit.clock import FakeClock
from orchgit.control.leader import Control
from orchgit.control.leader_term import ControlConfig
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits
from orchgit.control.workers.loop import WorkerLoop
from orchgit.control.workers.process import StoreViews
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.gitops import Gitops, GitopsPorts
from orchgit.gitops.mirrors.peers import Peer, PeerClient
from orchgit.gitops.parsing.job_parser import JobspecParser
from orchgit.gitops.parsing.port import Inputs, JobFile
from orchgit.gitops.rollouts.tracker import TrackerConfig
from orchgit.ids import SequentialIds
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.evaluation import EvalStatus
from orchgit.model.job import Job
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.source import Source
from orchgit.replication.commands.allocations import AllocClientUpdate
from orchgit.replication.commands.gitops import RefMove
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.scheduler.schedule import schedule
from orchgit.services.allocations.reports import NodeReports
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.sources import move_refs
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store, StoreReader
from orchgit.wire.messages import DequeueRequest
from tests.support.gitops_rig import NoForecasts
from tests.support.state import check_invariants
from tests.support.use_cases import ready_node

TYPES = ("service", "batch", "system", "sysbatch")
BRANCH = "refs/heads/main"

_CONFIG = GitopsConfig(tracker=TrackerConfig(busy_wait_s=0.05))

_FOREVER_S = 1e9
_CONTROL = ControlConfig(heartbeats=HeartbeatLimits(min_ttl_s=_FOREVER_S, failover_s=_FOREVER_S))
"""The node never misses a heartbeat, however long a test lasts."""

RUNS, FAILS, HANGS = "runs", "fails", "hangs"
"""What a task does: it runs and is healthy, it fails its health check, or its health is never
known. A batch task completes, fails, or never ends."""


@dataclass(frozen=True)
class JobContent:
    """What a job file says. `number` tells contents apart; `comment` changes the file alone."""

    number: int
    does: str = RUNS
    comment: int = 0
    count: int = 1


def job_text(
    name: str,
    kind: str,
    content: JobContent,
    auto_revert: bool = True,
    is_scaled: bool = False,
) -> str:
    """A job file. `kind` is a job type, or `periodic` for a batch job with a schedule."""
    update = f"""
    update {{
      progress_deadline = "0"
      healthy_deadline  = "1m"
      min_healthy_time  = "0s"
      auto_revert       = {str(auto_revert).lower()}
    }}
"""
    scaling = "scaling {\n      min = 1\n      max = 5\n    }" if is_scaled else ""
    periodic = 'periodic {\n    crons = ["0 0 1 1 *"]\n  }' if kind == "periodic" else ""
    return f"""# edit {content.comment}
variable "tag" {{
  type    = string
  default = ""
}}

job "{name}" {{
  type = "{"batch" if kind == "periodic" else kind}"
  {periodic}
  group "main" {{
    count = {content.count}
{update if kind == "service" else ""}
    {scaling}
    restart {{
      attempts = 0
      mode     = "fail"
    }}
    reschedule {{
      attempts  = 0
      unlimited = false
    }}
    task "main" {{
      driver = "raw_exec"
      config {{
        command = "/bin/true"
      }}
      env {{
        CONTENT = "{content.number}"
        DOES    = "{content.does}"
        TAG     = var.tag
      }}
      resources {{
        cpu    = 1
        memory = 10
      }}
    }}
  }}
}}
"""


def parsed(text: str) -> Job:
    """The job of a file, as `orchgit job run` sends it."""
    file = JobFile("job.nomad.hcl", text.encode, CurrentDirectory())
    return JobspecParser().parse(file, Inputs()).job


def environment(job: Job) -> Mapping[str, str]:
    """Of the job's only task."""
    return job.task_groups[0].tasks[0].env or {}


class _OtherServer(PeerClient):
    """The server that does not lead, and the way to it: it stores what it is asked to hold."""

    own_address, own_name = "leader:1", "leader"

    def __init__(self, share_objects: Callable[[str], Awaitable[None]]) -> None:
        super().__init__()
        self._share_objects = share_objects

    def others(self) -> Sequence[Peer]:
        return (Peer("other:1", "other"),)

    async def hold(
        self, address: str, source: str, wants: Sequence[str], own_address: str, timeout_s: float
    ) -> None:
        await self._share_objects(source)


class SimulatedServer:
    """`start` and `stop` as often as a test likes, on the same directory.

    `gitops` is that of the server which leads; `change_leader` goes on with another one, which
    remembers what it knew when it led before. `started` counts the allocations that were started,
    by job and number of the content.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = FakeClock()
        self.ids = SequentialIds()
        self.started: Counter[tuple[str, str]] = Counter()
        self._tasks: list[asyncio.Task[None]] = []
        self._names = ["first", "second"]
        self._node_id = ""

    # -- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        self.state = ReplicatedState(
            ReplicationConfig(self.directory, "server-1"), self.clock, self.ids
        )
        await self.state.start()
        self.context = UseCaseContext(self.state, self.clock, self.ids)
        self._reader: StoreReader = Store.open_reader(self.state.store.path)
        self._servers = [self._make_gitops(name) for name in self._names]
        for gitops in self._servers:
            gitops.open()
        await self._lead()
        if not self._node_id:
            self._node_id = (await ready_node(self.context)).id

    def _make_gitops(self, name: str) -> Gitops:
        other = _OtherServer(self._share_objects)
        ports = GitopsPorts(JobspecParser(), NoForecasts(), other, other)
        return Gitops(self.context, self.directory / name, _CONFIG, ports)

    async def _share_objects(self, repository: str) -> None:
        """Gives the other server what the leader has."""
        leading, other = self._servers
        mirror = other.mirrors.get(repository)
        await other.synchronizer.sync_refs(mirror)
        objects = leading.mirrors.get(repository).path / "objects"
        shutil.copytree(objects, mirror.path / "objects", dirs_exist_ok=True)

    @property
    def gitops(self) -> Gitops:
        return self._servers[0]

    async def _lead(self) -> None:
        self.control = Control(self.state, self.clock, self.ids, _CONTROL)
        await self.control.start()
        await self.control.ready()
        worker = WorkerLoop(
            self.control,
            StoreViews(self._reader),
            schedule,
            self.clock,
            self.ids,
            DequeueRequest(types=list(TYPES), worker_id="worker"),
        )
        self._tasks = [asyncio.create_task(worker.run())]
        await self.gitops.start()

    async def _follow(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.gitops.stop()
        await self.control.stop()

    async def change_leader(self) -> None:
        await self._follow()
        self._servers.reverse()
        self._names.reverse()
        await self._lead()

    async def stop(self) -> None:
        with self.context.snapshot() as snapshot:
            check_invariants(snapshot)
        await self._follow()
        for gitops in self._servers:
            await gitops.close()
        self._reader.close()
        await self.state.stop()

    # -- what a test reads -----------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return self.context.snapshot()

    def jobs(self) -> dict[str, Job]:
        """The jobs that are registered or stopped, without those that a schedule launched."""
        with self.snapshot() as snapshot:
            return {job.id: job for job in snapshot.jobs.all() if not job.parent_id}

    def source(self, name: str) -> Source | None:
        with self.snapshot() as snapshot:
            return snapshot.sources.get(name)

    def rollouts(self, source: str) -> list[Rollout]:
        """Newest first."""
        with self.snapshot() as snapshot:
            return snapshot.rollouts.all(source)

    def repository(self, source: str) -> str:
        """The name of the source's repository; that of a removed source has the source's name."""
        known = self.source(source)
        return known.repository_name if known is not None else source

    def branch(self, source: str) -> str:
        """The commit that the built-in repository's branch is at, or ''."""
        with self.snapshot() as snapshot:
            ref = snapshot.git_refs.get(self.repository(source), BRANCH)
        return ref.object_id if ref is not None else ""

    # -- what a test does ------------------------------------------------------------------------

    async def push(
        self, source: str, changes: Mapping[str, bytes | None], message: str = "A change"
    ) -> str:
        """Writes a commit on the branch and applies it, unless the source is paused; returns it."""
        parent = self.branch(source)
        author = Commit(author="Ada", email="ada@example.com", time_ns=self.clock.now_ns())
        repository = self.repository(source)
        mirror = self.gitops.mirrors.get(repository)
        await self.gitops.synchronizer.sync_refs(mirror)
        commit = mirror.open().write_commit(parent or None, changes, author, message)
        await self._share_objects(repository)
        await move_refs(self.context, source, [RefMove(BRANCH, parent, commit)])
        await self.gitops.sync(source)
        return commit

    async def pass_time(self, seconds: float) -> None:
        """Lets virtual time pass, a minute at a time."""
        left_s = seconds
        while left_s > 0:
            await self.clock.advance(min(left_s, 60.0))
            left_s -= 60.0
            await self.settle()

    async def settle(self, timeout_s: float = 60.0) -> None:
        """Returns when nothing is left to do but what waits for tasks that hang."""
        watch, quiet, why = self.state.store.watch, 0, ""
        try:
            async with asyncio.timeout(timeout_s):
                while quiet < 2:
                    index = watch.applied_index
                    with self.snapshot() as snapshot:
                        reports = list(self._reports(snapshot))
                        why = "allocations to report" if reports else _what_is_under_way(snapshot)
                    if reports:
                        await NodeReports(self.context, self._node_id).take(reports)
                    quiet = 0 if why else quiet + 1
                    await self.clock.advance(0.05)
                    if why and not reports:
                        await watch.wait_applied(index + 1, 0.01)
        except TimeoutError as error:
            raise AssertionError(f"the server does not come to rest: {why}") from error

    async def until(
        self, holds: Callable[[], bool], found: Callable[[], object], timeout_s: float = 5.0
    ) -> None:
        """Lets the leader's loops run until `holds`; fails with what is `found` at the end."""
        watch = self.state.store.watch
        try:
            async with asyncio.timeout(timeout_s):
                while not holds():
                    index = watch.applied_index
                    await self.clock.advance(0.05)
                    await watch.wait_applied(index + 1, 0.01)
        except TimeoutError as error:
            raise AssertionError(f"in the end there is {found()}") from error

    def _reports(self, snapshot: Snapshot) -> Iterator[AllocClientUpdate]:
        """What the node has to say; each allocation that begins is counted in `started`."""
        for allocation in snapshot.allocations.all():
            job = _job_of(snapshot, allocation)
            report = _report(allocation, job)
            if report is None:
                continue
            if allocation.client_status == ClientStatus.PENDING and job is not None:
                self.started[allocation.job_id, environment(job)["CONTENT"]] += 1
            yield report


def _report(allocation: Allocation, job: Job | None) -> AllocClientUpdate | None:
    """What the node says of the allocation now, if it is anything new."""
    if allocation.is_client_terminal:
        return None
    if allocation.desired_status != "run" or job is None:
        return AllocClientUpdate(allocation.id, ClientStatus.COMPLETE)
    does, is_judged = environment(job).get("DOES", RUNS), bool(allocation.deployment_id)
    judged = allocation.deployment_status
    healthy = does == RUNS if is_judged and does != HANGS else None
    is_new = allocation.client_status == ClientStatus.PENDING
    is_unjudged = healthy is not None and (judged is None or judged.healthy is None)
    if not is_new and not is_unjudged:
        return None  # an allocation that was updated in place is judged again
    status = ClientStatus.RUNNING
    if job.type in ("batch", "sysbatch") and does != HANGS:
        status = ClientStatus.COMPLETE if does == RUNS else ClientStatus.FAILED
    return AllocClientUpdate(allocation.id, status, deployment_healthy=healthy)


def _job_of(snapshot: Snapshot, allocation: Allocation) -> Job | None:
    return snapshot.job_versions.get(
        allocation.namespace, allocation.job_id, allocation.job_version
    )


def _what_is_under_way(snapshot: Snapshot) -> str:
    """An evaluation, a deployment or a rollout that neither a hanging task nor a gate holds; '' if
    there is none."""
    for evaluation in snapshot.evaluations.of_status(EvalStatus.PENDING):
        return f"{evaluation}"
    for deployment_id in snapshot.deployments.active_ids():
        deployment = snapshot.deployments.get(deployment_id)
        assert deployment is not None
        if not _hangs(snapshot, deployment.job_id, deployment.job_version):
            return f"{deployment}"
    for rollout in snapshot.rollouts.active():
        if rollout.is_waiting:
            continue
        waiting = [job for job in rollout.jobs if job.status in ("applied", "progressing")]
        if not waiting or not all(_hangs(snapshot, j.job_id, j.job_version) for j in waiting):
            return f"{rollout}"
    return ""


def _hangs(snapshot: Snapshot, job_id: str, version: int) -> bool:
    job = snapshot.job_versions.get("default", job_id, version)
    return job is not None and environment(job).get("DOES") == HANGS
