"""A push to the built-in remote: its objects received, its plan shown, its log entry proposed.

A majority of the servers has the objects on disk before the log names them. Then one log entry
moves the branch and registers the jobs, and the refs of every server's mirror follow the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import structlog

from orchgit.errors import OrchgitError, UnavailableError
from orchgit.gitops.commits.applier import ReadCommit
from orchgit.gitops.commits.forecast import Forecast
from orchgit.gitops.commits.gatekeeper import Gatekeeper
from orchgit.gitops.commits.plan import CommitPlan, Trigger
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.git.quarantine import Quarantine
from orchgit.gitops.git.repository import Repository
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.mirrors.quorum import Say
from orchgit.gitops.mirrors.rules import full_ref, shown_refs
from orchgit.gitops.remote.push_options import PushOptions, read_push_options
from orchgit.gitops.remote.push_text import gate_lines, plan_lines, problem_lines
from orchgit.gitops.remote.receive_protocol import (
    PushRequest,
    RefCommand,
    check_command,
    check_room,
)
from orchgit.model.gates import WindowOverride
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.replication.commands import RefMove
from orchgit.services.gitops.pauses import pause_text

_log = structlog.get_logger(component="gitops")
_DRY_RUN = "dry run: nothing was changed"


@dataclass(frozen=True, slots=True)
class Pusher:
    """The person who pushes. `say` shows that person lines of text while the push goes on."""

    name: str
    say: Say


@dataclass(frozen=True, slots=True)
class PushResult:
    """`refusals` are pairs of a ref and why it was refused, or '', in the order of the commands.
    `unpack_error`: why the objects were not received, or ''."""

    refusals: Sequence[tuple[str, str]]
    unpack_error: str = ""
    rollout: Rollout | None = None


@dataclass(frozen=True, slots=True)
class PushReceiver:
    """Receives the pushes of one server, one at a time for each repository."""

    services: CommitServices
    gatekeeper: Gatekeeper

    async def receive(
        self, mirror: Mirror, request: PushRequest, pack: AsyncIterator[bytes], pusher: Pusher
    ) -> PushResult:
        """Carries a push out. Errors of the push itself are in the result.

        Raises UnavailableError on a follower and while this server lacks objects of earlier
        commits, and InvalidInputError for an unknown push option, before anything is received.
        """
        if not self.services.context.state.cluster.is_leader:
            raise UnavailableError("cannot push here: this server is not the leader")
        options = read_push_options(request.options)
        await self.services.synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            quarantine = Quarantine(self.services.git, mirror.path)
            try:
                if request.has_pack:
                    await quarantine.receive(pack)
                objects = _PushedObjects(self.services, mirror, quarantine, request, pusher)
                push = _Push(self.services, self.gatekeeper, objects, pusher, options)
                return await push.run(request)
            except OrchgitError as error:
                refusals = [(command.ref, "not received") for command in request.commands]
                return PushResult(refusals, str(error))
            finally:
                quarantine.discard()
                self.services.maintenance.after_write(mirror)


class _PushedObjects:
    """The objects of one push: in quarantine at first, in the repository once `accept` returns."""

    def __init__(
        self,
        services: CommitServices,
        mirror: Mirror,
        quarantine: Quarantine,
        request: PushRequest,
        pusher: Pusher,
    ) -> None:
        self.mirror = mirror
        self._services = services
        self._quarantine = quarantine
        self._pusher = pusher
        self._wanted = sorted({each.new for each in request.commands if not each.is_delete})
        self._is_accepted = False
        self._error: OrchgitError | None = None

    async def open(self) -> Repository:
        """Returns the repository with the pushed objects in it. Raises InvalidInputError if some
        object reachable from the new refs is missing."""
        if self._wanted:
            await self._quarantine.check_connected(self._wanted)
        return self.mirror.open(self._quarantine.path)

    async def accept(self) -> None:
        """Moves the objects into the repository and stores them on a majority of the servers.

        The second call for one push returns, or raises, at once what the first one did.
        """
        if self._error is not None:
            raise self._error
        if self._is_accepted:
            return
        self._is_accepted = True
        self._quarantine.accept()
        self.mirror.held.update(self._wanted)
        try:
            await self._services.quorum.hold(self.mirror.name, self._wanted, self._pusher.say)
        except OrchgitError as error:
            self._error = error
            raise


class _Push:
    """One push whose objects are received: judges each ref and carries it out.

    `_refs` are the repository's refs as the commands so far leave them. Refs that move without a
    rollout wait in `_moves` for one log entry at the end.
    """

    def __init__(
        self,
        services: CommitServices,
        gatekeeper: Gatekeeper,
        objects: _PushedObjects,
        pusher: Pusher,
        options: PushOptions,
    ) -> None:
        self._services = services
        self._gatekeeper = gatekeeper
        self._objects = objects
        self._trigger = Trigger("push", pusher.name)
        self._say = pusher.say
        self._dry_run = options.dry_run
        self._override = self._override_of(options.override_window)
        self._rollout: Rollout | None = None
        self._refs: dict[str, str] = {}
        self._moves: list[RefMove] = []

    async def run(self, request: PushRequest) -> PushResult:
        """Carries out the commands: first that of the followed branch, then deletions."""
        mirror, synchronizer = self._objects.mirror, self._services.synchronizer
        source = self._services.applier.source(mirror.name)
        repository = await self._objects.open()
        missing = await synchronizer.sync_refs_locked(mirror)
        self._refs = synchronizer.refs(mirror.name)
        followed = full_ref(source.ref)
        commands = sorted(request.commands, key=lambda c: (c.ref != followed, not c.is_delete))
        max_refs = self._services.git.limits.max_refs
        refusals = {}
        for command in commands:
            shown = shown_refs(self._refs, missing)
            why = check_command(command, shown) or check_room(command, self._refs, max_refs)
            if not why and command.ref == followed:
                why = await self._push_followed_branch(command, source, repository)
            elif not why and self._dry_run:
                why = _DRY_RUN
            elif not why:
                self._move(command)
            refusals[command.ref] = why
        if self._moves:
            try:
                await self._objects.accept()
                await self._services.applier.move_refs(mirror.name, self._moves)
            except OrchgitError as error:
                refusals.update({move.ref: str(error) for move in self._moves})
        try:
            await synchronizer.sync_refs_locked(mirror)
        except OrchgitError as error:
            # The log has the refs, and the mirror follows; what was applied stays applied.
            _log.warning("cannot move refs of a mirror", source=source.name, error=str(error))
        return PushResult(list(refusals.items()), "", self._rollout)

    async def _push_followed_branch(
        self, command: RefCommand, source: Source, repository: Repository
    ) -> str:
        """Moves the branch that the source follows, and applies its commit. Returns why the push
        was refused, or ''."""
        if command.is_delete:
            return (
                f"source {source.name} follows this branch: run `orchgit source remove "
                f"{source.name}` first"
            )
        if not repository.has_commit(command.new):
            return "the branch must point at a commit"
        applied = source.status.applied_commit
        if command.new in source.status.quarantined:
            return "this commit was reverted or rejected: push a new commit on top of it"
        is_rewind = applied and not repository.is_descendant(command.new, applied)
        if is_rewind and not source.allow_rewind:
            return (
                f"the commit does not descend from the applied commit {applied[:8]}: fetch and "
                f"merge, or allow it with `orchgit source set {source.name} -allow-rewind`"
            )
        if source.paused:
            await self._say(
                f"Source {source.name} is {pause_text(source)}. Its commits are applied after "
                f"`orchgit source resume {source.name}`"
            )
            if not self._dry_run:
                self._move(command)
                return ""
        return await self._apply(command, source, repository)

    async def _apply(self, command: RefCommand, source: Source, repository: Repository) -> str:
        """Plans the commit, shows the plan, and applies it. Returns why it did not, or ''."""
        applier, cache = self._services.applier, self._services.caches.of(source.name)
        read = await applier.read(repository, command.new, source, cache)
        plan = await applier.plan(read, source.name, cache)
        if plan.problems:
            return await self._refuse(source, read, plan)
        forecast = await self._gatekeeper.forecaster.forecast(plan)
        await self._say("\n".join(plan_lines(plan, read.info.commit, forecast.fit)))
        await self._say_gates(read, plan, forecast)
        if self._dry_run:
            return _DRY_RUN
        if command.new == source.status.applied_commit:
            self._move(command)
            return ""
        try:
            await self._objects.accept()
            moves = [self._moved(command)]
            self._rollout = await self._gatekeeper.carry_out(
                read, plan, self._trigger, cache, moves, self._override
            )
        except OrchgitError as error:
            await self._say(str(error))
            return "the commit could not be applied"
        return ""

    async def _say_gates(self, read: ReadCommit, plan: CommitPlan, forecast: Forecast) -> None:
        """Says what each gate of the commit decides."""
        waiting = self._gatekeeper.waiting(plan.source.name, read.info.commit.id)
        verdict = await self._gatekeeper.verdict(read, plan, forecast, waiting, self._override)
        if lines := list(gate_lines(verdict.record)):
            await self._say("\n".join(lines))

    def _override_of(self, reason: str) -> WindowOverride | None:
        if not reason:
            return None
        now_ns = self._services.context.now_ns()
        return WindowOverride(self._trigger.pusher, reason, now_ns)

    async def _refuse(self, source: Source, read: ReadCommit, plan: CommitPlan) -> str:
        """Shows the commit's problems, and records a rollout that says why it was refused."""
        await self._say("\n".join(problem_lines(plan.problems)))
        if not self._dry_run:
            applier = self._services.applier
            try:
                await applier.record_refused(source, read, plan.problems, self._trigger)
            except OrchgitError as error:
                _log.warning("cannot record a refused push", source=source.name, error=str(error))
        count = len(plan.problems)
        return f"{count} problem{'s' * (count != 1)}, nothing was changed"

    def _move(self, command: RefCommand) -> None:
        self._moves.append(self._moved(command))

    def _moved(self, command: RefCommand) -> RefMove:
        """Returns the move for the log. Commands after this one see the refs as it leaves them."""
        new = "" if command.is_delete else command.new
        move = RefMove(command.ref, self._refs.pop(command.ref, ""), new)
        if new:
            self._refs[command.ref] = new
        return move
