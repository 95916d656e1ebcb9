"""A push to the built-in remote: received, planned, shown, applied, followed.

The objects come first: a majority of the servers has them on disk before the log names them. Then
one log entry moves the branch and registers the jobs, and the mirrors' refs follow it on every
server. Everything said goes to a `Say`, so that the person who pushed reads it live.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from orchgit.errors import OrchgitError
from orchgit.gitops.commits.applier import CommitApplier, ReadCommit, SourceCache
from orchgit.gitops.commits.forecast import Forecaster
from orchgit.gitops.commits.plan import CommitPlan, Trigger
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.git.quarantine import Quarantine
from orchgit.gitops.git.repository import Repository
from orchgit.gitops.mirrors.maintenance import Maintenance
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.mirrors.quorum import ObjectQuorum, Say
from orchgit.gitops.mirrors.rules import full_ref, shown_refs
from orchgit.gitops.mirrors.synchronizer import MirrorSynchronizer
from orchgit.gitops.remote.push_options import PushOptions, read_push_options
from orchgit.gitops.remote.push_text import (
    RolloutText,
    end_line,
    plan_lines,
    problem_lines,
)
from orchgit.gitops.remote.receive_protocol import (
    PushRequest,
    RefCommand,
    check_command,
    check_room,
)
from orchgit.gitops.rollouts.task_failures import (
    TaskFailure,
    failure_lines,
    last_lines,
    task_failures,
)
from orchgit.gitops.rollouts.tracker import RolloutTracker
from orchgit.model.allocation import Allocation
from orchgit.model.rollout import Rollout, RolloutJob
from orchgit.model.source import Source
from orchgit.replication.commands import RefMove
from orchgit.services.context import UseCaseContext

_log = structlog.get_logger(component="gitops")

_DRY_RUN = "dry run: nothing was changed"


_OUTPUT_BYTES = 2_000


class TaskLogs(Protocol):
    """Reads what tasks wrote, wherever they ran."""

    async def tail(self, alloc_id: str, task: str, stream: str, max_bytes: int) -> bytes:
        """The last bytes of `stdout` or `stderr`; empty where they cannot be read."""
        ...


class NoLogs:
    """`TaskLogs` where there are no agents."""

    async def tail(self, alloc_id: str, task: str, stream: str, max_bytes: int) -> bytes:
        return b""


@dataclass(frozen=True, slots=True)
class PushResult:
    """`refusals`: (ref, reason or ''), in the order of the commands."""

    refusals: Sequence[tuple[str, str]]
    unpack_error: str = ""
    rollout: Rollout | None = None


class PushReceiver:
    """Handles the pushes of one server. `memory` gives a source's parse memory."""

    def __init__(
        self,
        context: UseCaseContext,
        git: GitProcess,
        applier: CommitApplier,
        tracker: RolloutTracker,
        forecaster: Forecaster,
        memory: Callable[[str], SourceCache],
        maintenance: Maintenance,
        synchronizer: MirrorSynchronizer,
        quorum: ObjectQuorum,
        logs: TaskLogs,
    ) -> None:
        self._context = context
        self._logs = logs
        self._git = git
        self._synchronizer = synchronizer
        self._quorum = quorum
        self._maintenance = maintenance
        self._applier = applier
        self._tracker = tracker
        self._forecaster = forecaster
        self._memory = memory

    async def receive(
        self,
        mirror: Mirror,
        request: PushRequest,
        pack: AsyncIterator[bytes],
        pusher: str,
        say: Say,
    ) -> PushResult:
        """One at a time per repository. Errors of the push itself are in the result.

        Raises InvalidInputError for an unknown push option, before anything is received, and
        UnavailableError where this server still lacks objects of earlier commits.
        """
        options = read_push_options(request.options)
        await self._synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            quarantine = Quarantine(self._git, mirror.path)
            try:
                if request.has_pack:
                    await quarantine.receive(pack)
                push = _Push(self, mirror, quarantine, request, options, pusher, say)
                return await push.run()
            except OrchgitError as error:
                return PushResult([(c.ref, "not received") for c in request.commands], str(error))
            finally:
                quarantine.discard()
                self._maintenance.after_write(mirror)

    async def follow(self, rollout: Rollout, say: Say) -> None:
        """Tell how the rollout goes until it has ended, and why what failed did."""
        text = RolloutText()
        latest = rollout
        async for latest in self._tracker.follow(rollout):
            for line in text.lines(latest):
                await say(line)
            for job in text.newly_failed(latest):
                await self._explain(job, say)
        await say(end_line(latest))

    async def _explain(self, job: RolloutJob, say: Say) -> None:
        allocations = await asyncio.to_thread(self._allocations, job)
        for failure in task_failures(allocations, job.job_version):
            output = await self._output(failure) if failure.has_output else b""
            await say("\n".join(failure_lines(failure, last_lines(output))))

    def _allocations(self, job: RolloutJob) -> Sequence[Allocation]:
        with self._context.snapshot() as snapshot:
            return snapshot.allocations.of_job(job.namespace, job.job_id)

    async def _output(self, failure: TaskFailure) -> bytes:
        """The end of stderr; of stdout where a task wrote nothing else."""
        for stream in ("stderr", "stdout"):
            found = await self._logs.tail(failure.alloc_id, failure.task, stream, _OUTPUT_BYTES)
            if found.strip():
                return found
        return b""


class _Push:
    """One push, its objects received. Holds what its steps share."""

    def __init__(
        self,
        owner: PushReceiver,
        mirror: Mirror,
        quarantine: Quarantine,
        request: PushRequest,
        options: PushOptions,
        pusher: str,
        say: Say,
    ) -> None:
        self._owner = owner
        self._mirror = mirror
        self._quarantine = quarantine
        self._request = request
        self._options = options
        self._pusher = pusher
        self._say = say
        self._rollout: Rollout | None = None
        self._accepted = False
        self._unheld: OrchgitError | None = None
        self._refs: dict[str, str] = {}
        self._missing: frozenset[str] = frozenset()
        self._moves: list[RefMove] = []

    async def run(self) -> PushResult:
        source = self._owner._applier.source(self._mirror.name)
        repository = self._mirror.open(self._quarantine.path)
        if wanted := self._wanted():
            await self._quarantine.check_connected(wanted)
        self._missing = await self._owner._synchronizer.sync_refs_locked(self._mirror)
        self._refs = self._owner._synchronizer.refs(self._mirror.name)
        followed = full_ref(source.ref)
        commands = sorted(
            self._request.commands, key=lambda c: (c.ref != followed, not c.is_delete)
        )
        refusals = {c.ref: await self._judge(c, source, repository, followed) for c in commands}
        why = await self._move_refs()
        refusals.update({move.ref: why for move in self._moves if why})
        try:
            await self._owner._synchronizer.sync_refs_locked(self._mirror)
        except OrchgitError as error:
            # The log has the refs, and the mirror follows; what was applied stays applied.
            _log.warning("cannot move refs of a mirror", source=source.name, error=str(error))
        return PushResult(list(refusals.items()), "", self._rollout)

    def _wanted(self) -> list[str]:
        return sorted({c.new for c in self._request.commands if not c.is_delete})

    async def _judge(
        self, command: RefCommand, source: Source, repository: Repository, followed: str
    ) -> str:
        """The ref's part; the reason for a refusal, or ''."""
        shown = shown_refs(self._refs, self._missing)
        limit = self._owner._git.limits.max_refs
        why = check_command(command, shown) or check_room(command, self._refs, limit)
        return why or await self._carry_out(command, source, repository, followed)

    async def _carry_out(
        self, command: RefCommand, source: Source, repository: Repository, followed: str
    ) -> str:
        if command.ref != followed and self._options.dry_run:
            return _DRY_RUN
        if command.ref != followed:
            self._move(command)
            return ""
        if command.is_delete:
            return f"source {source.name} follows it: delete the source first"
        if not repository.has_commit(command.new):
            return "it must point at a commit"
        why = self._check_history(command, source, repository)
        return why or await self._deploy(command, source, repository)

    def _check_history(self, command: RefCommand, source: Source, repository: Repository) -> str:
        applied = source.status.applied_commit
        if command.new in source.status.quarantined:
            return "this commit was reverted: push a new one on top"
        if (
            applied
            and not source.allow_rewind
            and not repository.is_descendant(command.new, applied)
        ):
            return (
                f"it does not descend from the applied commit {applied[:8]}: "
                "fetch and merge, or allow_rewind on the source"
            )
        return ""

    async def _deploy(self, command: RefCommand, source: Source, repository: Repository) -> str:
        if source.paused:
            await self._say(
                f"Source {source.name} is paused: its commits are applied after "
                f"`orchgit source resume {source.name}`"
            )
        if source.paused and not self._options.dry_run:
            self._move(command)
            return ""
        applier = self._owner._applier
        memory = self._owner._memory(source.name)
        read = await applier.read(repository, command.new, source, memory)
        plan = await applier.plan(read, source.name, memory)
        if plan.problems:
            return await self._refuse(source, read, plan)
        await self._show(plan, read)
        if self._options.dry_run:
            return _DRY_RUN
        if command.new == source.status.applied_commit:
            self._move(command)
            return ""
        trigger = Trigger("push", self._pusher)
        try:
            await self._accept()
            move = self._noted(command)
            self._rollout = await applier.apply(read, plan, trigger, memory, [move])
        except OrchgitError as error:
            await self._tell(str(error).splitlines())
            return "it could not be applied"
        return ""

    async def _refuse(self, source: Source, read: ReadCommit, plan: CommitPlan) -> str:
        await self._tell(problem_lines(plan.problems))
        if not self._options.dry_run:
            trigger = Trigger("push", self._pusher)
            applier = self._owner._applier
            try:
                await applier.record_refused(source, read, plan.problems, trigger)
            except OrchgitError as error:
                _log.warning("cannot record a refused push", source=source.name, error=str(error))
        count = len(plan.problems)
        return f"{count} problem{'s' * (count != 1)}, nothing was changed"

    async def _show(self, plan: CommitPlan, read: ReadCommit) -> None:
        forecasts = await self._owner._forecaster.forecast(plan)
        await self._tell(plan_lines(plan, read.info.commit, forecasts))

    async def _tell(self, lines: Iterable[str]) -> None:
        text = "\n".join(lines)
        if text:
            await self._say(text)

    async def _accept(self) -> None:
        """The objects become part of the repository, and a majority of the servers has them."""
        if self._unheld is not None:
            raise self._unheld
        if self._accepted:
            return
        self._accepted = True
        wanted = self._wanted()
        self._quarantine.accept()
        self._mirror.held.update(wanted)
        try:
            await self._owner._quorum.hold(self._mirror.name, wanted, self._say)
        except OrchgitError as error:
            self._unheld = error
            raise

    def _move(self, command: RefCommand) -> None:
        self._moves.append(self._noted(command))

    def _noted(self, command: RefCommand) -> RefMove:
        """What the log is told; the commands after this one see the refs as they will be."""
        new = "" if command.is_delete else command.new
        move = RefMove(command.ref, self._refs.pop(command.ref, ""), new)
        if new:
            self._refs[command.ref] = new
        return move

    async def _move_refs(self) -> str:
        """Refs that move without a rollout, in one entry; why they did not, or ''."""
        if not self._moves:
            return ""
        try:
            await self._accept()
            await self._owner._applier.move_refs(self._mirror.name, self._moves)
        except OrchgitError as error:
            return str(error)
        return ""
