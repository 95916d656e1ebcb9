"""A push to the built-in remote: received, planned, shown, applied, followed.

The log entry comes before the ref: a push is acknowledged when both are done, and a crash between
them is repaired from the log (`reconciler`). Everything said goes to a `Say`, so that the person
who pushed reads it live.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchgit.errors import OrchgitError
from orchgit.gitops.applying import Applier, ReadCommit, SourceMemory
from orchgit.gitops.commit_plan import CommitPlan, Occasion
from orchgit.gitops.discovery import JobKey
from orchgit.gitops.git_process import GitProcess
from orchgit.gitops.log import LOG
from orchgit.gitops.maintenance import Maintenance
from orchgit.gitops.mirrors import Mirror
from orchgit.gitops.push_text import Forecast, RolloutText, end_line, plan_lines, problem_lines
from orchgit.gitops.quarantine import Quarantine
from orchgit.gitops.receive_protocol import PushRequest, RefCommand, check_command
from orchgit.gitops.reconciler import full_ref, keep_applied
from orchgit.gitops.repo import Repository
from orchgit.gitops.rollouts import RolloutTracker
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source

Say = Callable[[str], Awaitable[None]]


class Forecaster(Protocol):
    """Asks the scheduler what a plan would do; may answer with nothing."""

    async def forecast(self, plan: CommitPlan) -> dict[JobKey, Forecast]: ...


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
        git: GitProcess,
        applier: Applier,
        tracker: RolloutTracker,
        forecaster: Forecaster,
        memory: Callable[[str], SourceMemory],
        maintenance: Maintenance,
    ) -> None:
        self._git = git
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
        """One at a time per repository. Errors of the push itself are in the result."""
        async with mirror.lock:
            quarantine = Quarantine(self._git, mirror.path)
            try:
                if request.has_pack:
                    await quarantine.receive(pack)
                push = _Push(self, mirror, quarantine, request, pusher, say)
                return await push.run()
            except OrchgitError as error:
                return PushResult([(c.ref, "not received") for c in request.commands], str(error))
            finally:
                quarantine.discard()
                self._maintenance.after_write(mirror)

    async def follow(self, rollout: Rollout, say: Say) -> None:
        """Tell how the rollout goes until it has ended."""
        text = RolloutText()
        if rollout.is_terminal:
            await say(end_line(rollout))
        async for state in self._tracker.follow(rollout):
            for line in text.lines(state):
                await say(line)


class _Push:
    """One push, its objects received. Holds what its steps share."""

    def __init__(
        self,
        owner: PushReceiver,
        mirror: Mirror,
        quarantine: Quarantine,
        request: PushRequest,
        pusher: str,
        say: Say,
    ) -> None:
        self._owner = owner
        self._mirror = mirror
        self._quarantine = quarantine
        self._request = request
        self._pusher = pusher
        self._say = say
        self._rollout: Rollout | None = None
        self._accepted = False

    async def run(self) -> PushResult:
        source = self._owner._applier.source(self._mirror.name)
        repository = self._mirror.open(self._quarantine.path)
        wanted = [c.new for c in self._request.commands if not c.is_delete]
        _, refs = await asyncio.gather(
            self._quarantine.check_connected(wanted) if wanted else _nothing(),
            asyncio.to_thread(repository.refs),
        )
        refusals: list[tuple[str, str]] = []
        followed = full_ref(source.ref)
        commands = sorted(self._request.commands, key=lambda c: c.ref != followed)
        for command in commands:
            why = check_command(command, refs)
            if not why:
                why = await self._carry_out(command, source, repository, followed)
            refusals.append((command.ref, why))
        return PushResult(refusals, "", self._rollout)

    async def _carry_out(
        self, command: RefCommand, source: Source, repository: Repository, followed: str
    ) -> str:
        """The ref's part; the reason for a refusal, or ''."""
        if "dry-run" in self._request.options and command.ref != followed:
            return "dry run: nothing was changed"
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
            await self._say(f"Source {source.name} is paused: applied when it is resumed")
            self._move(command)
            return ""
        applier = self._owner._applier
        memory = self._owner._memory(source.name)
        read = await applier.read(repository, command.new, source, memory)
        plan = await applier.plan(read, source.name, memory)
        if plan.problems:
            return await self._refuse(source, read, plan)
        await self._show(plan, read)
        if "dry-run" in self._request.options:
            return "dry run: nothing was changed"
        if command.new == source.status.applied_commit:
            self._move(command)
            return ""
        self._accept()
        occasion = Occasion("push", self._pusher)
        try:
            self._rollout = await applier.apply(read, plan, occasion, memory)
        except OrchgitError as error:
            await self._tell(str(error).splitlines())
            return "it could not be applied"
        self._move(command)
        keep_applied(self._mirror.open(), command.new)
        return ""

    async def _refuse(self, source: Source, read: ReadCommit, plan: CommitPlan) -> str:
        await self._tell(problem_lines(plan.problems))
        if "dry-run" not in self._request.options:
            occasion = Occasion("push", self._pusher)
            applier = self._owner._applier
            try:
                await applier.record_refused(source, read, plan.problems, occasion)
            except OrchgitError as error:
                LOG.warning("cannot record a refused push", source=source.name, error=str(error))
        count = len(plan.problems)
        return f"{count} problem{'s' * (count != 1)}, nothing was changed"

    async def _show(self, plan: CommitPlan, read: ReadCommit) -> None:
        forecasts = await self._owner._forecaster.forecast(plan)
        await self._tell(plan_lines(plan, read.info.commit, forecasts))

    async def _tell(self, lines: Iterable[str]) -> None:
        text = "\n".join(lines)
        if text:
            await self._say(text)

    def _accept(self) -> None:
        if not self._accepted:
            self._quarantine.accept()
            self._accepted = True

    def _move(self, command: RefCommand) -> None:
        self._accept()
        repository = self._mirror.open()
        if command.is_delete:
            repository.delete_ref(command.ref)
        else:
            repository.set_ref(command.ref, command.new)


async def _nothing() -> None:
    return None
