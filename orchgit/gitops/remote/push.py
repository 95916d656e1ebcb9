"""A push to the built-in remote: its objects received, its plan shown, its log entry proposed.

A majority of the servers has the objects on disk before the log names them. Then one log entry
for each source that follows the branch registers its jobs, the first of them moves the branch, and
the refs of every server's mirror follow the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import structlog

from orchgit.errors import OrchgitError, UnavailableError
from orchgit.gitops.commits.applier import ReadCommit
from orchgit.gitops.commits.descent import refusal_of_move
from orchgit.gitops.commits.forecast import Forecast
from orchgit.gitops.commits.gatekeeper import Gatekeeper
from orchgit.gitops.commits.plan import CommitPlan, Trigger
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.git.quarantine import Quarantine
from orchgit.gitops.git.refs import SEMVER, ZERO_ID, ResolvedRef
from orchgit.gitops.git.repository import Repository
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.mirrors.quorum import Say
from orchgit.gitops.mirrors.rules import followed_ref, full_ref, shown_refs
from orchgit.gitops.remote.access import OPEN, GitCaller
from orchgit.gitops.remote.push_options import PushOptions, read_push_options
from orchgit.gitops.remote.push_text import gate_lines, plan_lines
from orchgit.gitops.remote.receive_protocol import (
    PushRequest,
    RefCommand,
    check_command,
    check_room,
)
from orchgit.gitops.rollouts.rollout_text import problem_lines
from orchgit.model.gates import WindowOverride
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.replication.commands.gitops import RefMove
from orchgit.replication.proposal import RequestWrites
from orchgit.services.gitops.pauses import pause_text

_log = structlog.get_logger(component="gitops")
_DRY_RUN = "dry run: nothing was changed"


@dataclass(frozen=True, slots=True)
class RemoteUser:
    """Who sends a request to the remote: a name for records, and what the token allows."""

    name: str
    caller: GitCaller


@dataclass(frozen=True, slots=True)
class Pusher:
    """The person who pushes. `say` shows that person lines of text while the push goes on."""

    name: str
    say: Say
    caller: GitCaller = OPEN


@dataclass(frozen=True, slots=True)
class PushResult:
    """`refusals` are pairs of a ref and why it was refused, or '', in the order of the commands.
    `unpack_error`: why the objects were not received, or ''. There is a rollout for each source
    of the repository that the push changed."""

    refusals: Sequence[tuple[str, str]]
    unpack_error: str = ""
    rollouts: tuple[Rollout, ...] = ()


@dataclass(frozen=True, slots=True)
class PushReceiver:
    """Receives the pushes of one server, one at a time for each repository. `wake` makes the loop
    of a source check it; `pushed` tells it that a push has checked it now."""

    services: CommitServices
    gatekeeper: Gatekeeper
    wake: Callable[[str], None]
    pushed: Callable[[str], None]

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
                services = self.services.noting(RequestWrites(author=pusher.caller.author))
                receiver = replace(
                    self,
                    services=services,
                    gatekeeper=replace(self.gatekeeper, services=services),
                )
                push = _Push(receiver, objects, pusher, options)
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


@dataclass(frozen=True, slots=True)
class _Planned:
    """The pushed commit, read and planned for one source. `forecast` is None if it has
    problems."""

    source: Source
    read: ReadCommit
    plan: CommitPlan
    forecast: Forecast | None = None


def _defined_twice(planned: _Planned, others: Sequence[_Planned]) -> Iterable[str]:
    """Yields a problem for each job that sources of one repository both define: the entry of the
    first would be in the way of the second's."""
    for key, desired in planned.read.discovery.jobs.items():
        for other in others:
            known = other.read.discovery.jobs.get(key)
            if known is not None:
                yield (
                    f"{desired.path}:{desired.line}:1: job {key[1]!r} is also that of source "
                    f"{other.source.name!r} ({known.path}:{known.line}); give the sources other "
                    "paths or namespaces"
                )


class _Push:
    """One push whose objects are received: judges each ref and carries it out.

    `_refs` are the repository's refs as the commands so far leave them. Refs that move without a
    rollout wait in `_moves` for one log entry at the end.
    """

    def __init__(
        self,
        receiver: PushReceiver,
        objects: _PushedObjects,
        pusher: Pusher,
        options: PushOptions,
    ) -> None:
        self._services = receiver.services
        self._gatekeeper = receiver.gatekeeper
        self._wake = receiver.wake
        self._pushed = receiver.pushed
        self._objects = objects
        self._trigger = Trigger("push", pusher.name)
        self._say = pusher.say
        self._caller = pusher.caller
        self._dry_run = options.dry_run
        self._override: WindowOverride | None = None
        if options.override_window:
            now_ns = self._services.context.now_ns()
            self._override = WindowOverride(pusher.name, options.override_window, now_ns)
        self._rollouts: list[Rollout] = []
        self._refs: dict[str, str] = {}
        self._moves: list[RefMove] = []

    async def run(self, request: PushRequest) -> PushResult:
        """Carries out the commands: first those of followed refs, then deletions."""
        mirror, synchronizer = self._objects.mirror, self._services.synchronizer
        sources = self._services.applier.sources_of(mirror.name)
        repository = await self._objects.open()
        missing = await synchronizer.sync_refs_locked(mirror)
        self._refs = synchronizer.refs(mirror.name)
        followed = {followed_ref(source, self._refs) for source in sources}
        commands = sorted(request.commands, key=lambda c: (c.ref not in followed, not c.is_delete))
        max_refs = self._services.git.limits.max_refs
        refusals = {}
        for command in commands:
            shown = shown_refs(self._refs, missing)
            why = check_command(command, shown) or check_room(command, self._refs, max_refs)
            followers = [each for each in sources if self._concerns(command, each)]
            why = why or self._lacking_right(command, followers, sources, repository)
            if not why and followers:
                why = await self._push_followed_ref(command, followers, repository)
            elif not why and self._dry_run:
                why = _DRY_RUN
            elif not why:
                self._moves.append(self._moved(command))
            refusals[command.ref] = why
        if self._moves:
            try:
                await self._objects.accept()
                await self._services.applier.move_refs(sources[0].name, self._moves)
            except OrchgitError as error:
                refusals.update({move.ref: str(error) for move in self._moves})
        try:
            await synchronizer.sync_refs_locked(mirror)
        except OrchgitError as error:
            # The log has the refs, and the mirror follows; what was applied stays applied.
            _log.warning("cannot move refs of a mirror", repository=mirror.name, error=str(error))
        return PushResult(list(refusals.items()), "", tuple(self._rollouts))

    def _lacking_right(
        self,
        command: RefCommand,
        followers: Sequence[Source],
        sources: Sequence[Source],
        repository: Repository,
    ) -> str:
        """Returns which right the pusher lacks to move the ref, or ''."""
        if self._caller.rights.is_management:
            return ""
        old = repository.peel(command.old) if command.old != ZERO_ID else None
        new = repository.peel(command.new) if not command.is_delete else None
        is_tag = command.ref.startswith("refs/tags/")
        moves_on = old is not None and new is not None and repository.is_descendant(new, old)
        rewrites = command.old != ZERO_ID and (is_tag or not moves_on)
        why = self._caller.refusal_of_move(followers, sources, rewrites)
        if not why and self._override is not None:
            why = self._caller.refusal_of_override(followers)
        return why

    def _concerns(self, command: RefCommand, source: Source) -> bool:
        """Returns whether the source follows the command's ref: for a tag in a range of versions,
        whether it is the newest once it is there. Deleting such a tag deploys nothing."""
        if command.is_delete:
            return not source.ref.startswith(SEMVER) and full_ref(source.ref) == command.ref
        return followed_ref(source, {*self._refs, command.ref}) == command.ref

    async def _push_followed_ref(
        self, command: RefCommand, sources: Sequence[Source], repository: Repository
    ) -> str:
        """Moves a ref, and applies its commit for each source that follows it: all are planned
        before any is applied. Returns why the push was refused, or ''."""
        if command.is_delete:
            return (
                f"source {sources[0].name} follows this branch: run `orchgit source remove "
                f"{sources[0].name}` first"
            )
        commit_id = repository.peel(command.new)
        is_branch = command.ref.startswith("refs/heads/")
        if commit_id is None or (is_branch and commit_id != command.new):
            return "the branch must point at a commit"
        wanted = ResolvedRef(command.ref, commit_id)
        for source in sources:
            if why := self._refusal(source, wanted, repository):
                return why if len(sources) == 1 else f"source {source.name}: {why}"
        planned: list[_Planned] = []
        refused = ""
        for source in sources:
            if source.paused:
                await self._say(
                    f"Source {source.name} is {pause_text(source)}. Its commits are applied after "
                    f"`orchgit source resume {source.name}`"
                )
            if source.paused and not self._dry_run:
                continue
            if len(sources) > 1:
                await self._say(f"Source {source.name}:")
            applier, cache = self._services.applier, self._services.caches.of(source.name)
            read = await applier.read(repository, commit_id, source, cache)
            plan = await applier.plan(read, source.name, cache)
            each = _Planned(source, read, plan)
            problems = (*each.plan.problems, *_defined_twice(each, planned))
            if problems:
                refused = await self._refuse(source, each.read, problems)
            else:
                forecast = await self._gatekeeper.forecaster.forecast(each.plan)
                lines = plan_lines(each.plan, each.read.info.commit, forecast.fit)
                await self._say("\n".join(lines))
                await self._say_gates(each.read, each.plan, forecast)
                each = replace(each, forecast=forecast)
            planned.append(each)
        if refused or self._dry_run:
            return refused or _DRY_RUN
        return await self._apply(command, wanted, planned)

    def _refusal(self, source: Source, wanted: ResolvedRef, repository: Repository) -> str:
        """Returns why the source may not go to the commit, or ''."""
        if wanted.commit_id in source.status.quarantined:
            return "this commit was reverted or rejected: push a new commit on top of it"
        applied = source.status.applied_commit
        descends = not applied or repository.is_descendant(wanted.commit_id, applied)
        if source.ref.startswith(SEMVER):
            applied_ref = self._services.applier.applied_ref(source)
            return refusal_of_move(source, wanted, applied_ref, descends)
        if descends or source.allow_rewind:
            return ""
        return (
            f"the commit does not descend from the applied commit {applied[:8]}: fetch and "
            f"merge, or allow it with `orchgit source set {source.name} -allow-rewind`"
        )

    async def _apply(
        self, command: RefCommand, wanted: ResolvedRef, planned: Sequence[_Planned]
    ) -> str:
        """Applies the commit: one log entry for each source, of which the first moves the ref.
        Returns why nothing was applied, or ''. What fails after the first is tried again by the
        source's loop, since the ref has moved."""
        trigger = replace(self._trigger, ref=wanted.name)
        moves = [self._moved(command)]
        for each in planned:
            name = each.source.name
            if wanted.commit_id == each.source.status.applied_commit:
                continue
            cache = self._services.caches.of(name)
            try:
                await self._objects.accept()
                rollout = await self._gatekeeper.carry_out(
                    each.read, each.plan, trigger, cache, moves, self._override, each.forecast
                )
            except OrchgitError as error:
                await self._say(str(error))
                if moves:
                    return "the commit could not be applied"
                await self._say(
                    f"Source {name} is tried again; `orchgit source status {name}` shows the result"
                )
                self._wake(name)
                continue
            moves = []
            self._rollouts.append(rollout)
            self._pushed(name)
        self._moves += moves
        return ""

    async def _say_gates(self, read: ReadCommit, plan: CommitPlan, forecast: Forecast) -> None:
        """Says what each gate of the commit decides."""
        waiting = self._gatekeeper.waiting(plan.source.name, read.info.commit.id)
        verdict = await self._gatekeeper.verdict(read, plan, forecast, waiting, self._override)
        if lines := list(gate_lines(verdict.record)):
            await self._say("\n".join(lines))

    async def _refuse(self, source: Source, read: ReadCommit, problems: Sequence[str]) -> str:
        """Shows the commit's problems, and records a rollout that says why it was refused."""
        await self._say("\n".join(problem_lines(problems)))
        if not self._dry_run:
            applier = self._services.applier
            try:
                await applier.record_refused(source, read, problems, self._trigger)
            except OrchgitError as error:
                _log.warning("cannot record a refused push", source=source.name, error=str(error))
        count = len(problems)
        return f"{count} problem{'s' * (count != 1)}, nothing was changed"

    def _moved(self, command: RefCommand) -> RefMove:
        """Returns the move for the log. Commands after this one see the refs as it leaves them."""
        new = "" if command.is_delete else command.new
        move = RefMove(command.ref, self._refs.pop(command.ref, ""), new)
        if new:
            self._refs[command.ref] = new
        return move
