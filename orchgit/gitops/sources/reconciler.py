"""The loop of one source: brings its newest commit into the cluster.

A round is caused by a poll, a webhook, a watch or a person. The mirror's lock keeps one commit of a
source at a time under way; of commits that arrive meanwhile only the newest is applied. Whatever
goes wrong before the log entry is an error in the source's status and leaves the jobs as they are.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace as replace_services
from random import Random

import structlog
from msgspec.structs import replace

from orchgit.backoff import backoff_s
from orchgit.errors import JobFileError, OrchgitError, SourceError, UnavailableError
from orchgit.gitops.commits.descent import refusal_of_move
from orchgit.gitops.commits.gatekeeper import Gatekeeper
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.gates.decide import may_go_on, waits_for_room
from orchgit.gitops.git.refs import ResolvedRef, is_commit_id
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.mirrors.rules import PUBLIC_PREFIXES, followed_ref
from orchgit.gitops.sources.gate_loop import GATE_TRIGGER
from orchgit.gitops.sources.health import error_kind
from orchgit.gitops.sources.remote_reader import RemoteReader
from orchgit.gitops.sources.wakeups import NOBODY, POLL, Asker, Wake, Wakeups
from orchgit.model.base import NS_PER_S
from orchgit.model.gates import WindowOverride
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source, SourceErrorKind, SourceKind, SourceStatus
from orchgit.model.source_health import SourceCheck, SyncResult
from orchgit.replication.commands.gitops import RefMove
from orchgit.replication.proposal import RequestWrites
from orchgit.services.gitops.pauses import pause_text, resume_when_due
from orchgit.services.gitops.sources import move_refs, record_source_status

_JITTER_SHARE = 0.2
_MAX_BACKOFF_S = 300.0
_MAX_ERROR_TEXT = 1000
_TABLES_OF_GATES = ("jobs", "rollouts", "sources")
_TABLES_OF_ROOM = ("allocations", "nodes")
_LAST_ROUND = 1 << 62
"""The number of a round after which nobody waits for another."""

_log = structlog.get_logger(component="gitops")


class SourceReconciler:
    """Follows one source until `run` is cancelled.

    `check` tells how its rounds go. It is kept in this server's memory only, since a check that
    finds nothing writes no log entry.
    """

    def __init__(
        self,
        name: str,
        mirror: Mirror,
        services: CommitServices,
        remotes: RemoteReader,
        random: Random,
        gatekeeper: Gatekeeper,
    ) -> None:
        self.name = name
        self.check = SourceCheck()
        self._mirror = mirror
        self._services = services
        self._remotes = remotes
        self._random = random
        self._gatekeeper = gatekeeper
        self._gates_seen: tuple[str, int] = ("", 0)
        self._wakeups = Wakeups(services.context.clock)
        self._found = ""
        """The remote's commit, once the round at work knows it."""
        self._finished_round = 0
        self._result = SyncResult("checking")
        self._round_done = asyncio.Condition()

    def wake(self, trigger: str, force: bool = False, asker: Asker = NOBODY) -> None:
        """Causes a round. With `force` it tries a refused commit again."""
        self._wakeups.request(Wake(trigger, force, asker=asker))

    async def run(self) -> None:
        """Runs rounds until cancelled; then nobody waits for a round any longer."""
        try:
            self.wake("poll")
            while True:
                pause_s = self._pause_s()
                next_ns = self._services.context.now_ns() + int(pause_s * NS_PER_S)
                self.check = replace(self.check, next_try_ns=next_ns)
                wake = await self._wakeups.next(pause_s)
                self.check = replace(self.check, under_way=True, next_try_ns=0)
                self._result = await self._round(wake)
                self.check = replace(self.check, under_way=False)
                await self._round_ended(self._wakeups.handled)
        finally:
            await self._round_ended(_LAST_ROUND)

    async def _round_ended(self, number: int) -> None:
        async with self._round_done:
            self._finished_round = number
            self._round_done.notify_all()

    async def _round(self, wake: Wake) -> SyncResult:
        """Does one round, and records what went wrong."""
        self._found = ""
        try:
            result = await self.reconcile(wake)
        except JobFileError as error:  # recorded with its problems already
            result = SyncResult("refused", str(error), self.check.remote_commit)
        except OrchgitError as error:
            return await self._failed(error)
        except Exception as error:  # noqa: BLE001 - one bad round must not end the loop
            _log.exception("a round of a source failed", source=self.name)
            return await self._failed(
                SourceError(
                    f"cannot finish a round of source {self.name!r}: internal error "
                    f"({type(error).__name__}: {error}); the log of "
                    f"{self._services.synchronizer.own_name} has the traceback"
                )
            )
        if result.result != "paused":
            now_ns = self._services.context.now_ns()
            self.check = replace(self.check, last_success_ns=now_ns, failures=0)
        return result

    async def round_after_now(
        self, override: WindowOverride | None = None, asker: Asker = NOBODY
    ) -> SyncResult:
        """Causes a round, and returns the result of one that started after this call. With
        `override` that round applies a commit outside its windows.

        Raises UnavailableError if the loop ends before.
        """
        self._wakeups.request(Wake("api", True, override, asker))
        asked = self._wakeups.requested
        async with self._round_done:
            await self._round_done.wait_for(lambda: self._finished_round >= asked)
        if self._finished_round == _LAST_ROUND:
            raise UnavailableError(
                f"cannot tell what checking source {self.name!r} came to: this server stopped "
                "following it; `orchgit source status` shows it"
            )
        return self._result

    def _pause_s(self) -> float:
        """Returns the poll interval with jitter; longer after each failure in a row, up to a
        bound, and at most until the source resumes by itself."""
        try:
            source = self._services.applier.source(self.name)
        except OrchgitError:
            return _MAX_BACKOFF_S
        interval_s = source.poll_interval_ns / NS_PER_S
        retry_s = backoff_s(min(self.check.failures, 8), interval_s, _MAX_BACKOFF_S)
        bounded_s = max(interval_s, retry_s) * (1 + _JITTER_SHARE * self._random.random())
        if source.paused and source.pause.until_ns:
            left_ns = source.pause.until_ns - self._services.context.now_ns()
            return min(bounded_s, max(0.0, left_ns / NS_PER_S))
        return bounded_s

    def note_push(self) -> None:
        """Notes a push, which tells the commit of a built-in repository as a check would."""
        now_ns = self._services.context.now_ns()
        self.check = replace(
            self.check, known=True, last_check_ns=now_ns, last_success_ns=now_ns, failures=0
        )

    async def reconcile(self, wake: Wake) -> SyncResult:
        """Does one round. Returns what it came to. Raises what stopped it."""
        async with self._mirror.lock:
            source = self._services.applier.source(self.name)
            if source.paused and await resume_when_due(self._services.context, source):
                _log.info("the pause of a source is over", source=self.name)
                source = self._services.applier.source(self.name)
            if source.paused:
                return SyncResult("paused", pause_text(source))
            now_ns = self._services.context.now_ns()
            self.check = replace(self.check, known=True, last_check_ns=now_ns)
            if source.kind == SourceKind.BUILTIN:
                wanted = await self._builtin_commit(source)
            else:
                wanted = await self._fetched_commit(source, wake)
            if wanted is None:
                self.check = replace(self.check, remote_commit="")
                await self._record_error("")
                return SyncResult("unchanged", f"source {self.name} has no commit yet")
            commit_id = self._found = wanted.commit_id
            self.check = replace(self.check, remote_commit=commit_id)
            if commit_id == source.status.applied_commit:
                await self._record_error("")
                await self._gatekeeper.withdraw(self.name, "its commit is not wanted any more")
                return SyncResult("unchanged", "", commit_id, source.status.applied_rollout)
            if commit_id in source.status.quarantined:
                await self._record_error("")
                text = "it was reverted or rejected; push a commit on top of it"
                return SyncResult("held", text, commit_id)
            waiting = self._gatekeeper.waiting(self.name, commit_id)
            if waiting is not None and not self._may_go_on(waiting, wake):
                await self._record_error("")
                return SyncResult("waiting", waiting.status_description, commit_id, waiting.id)
            if not self._is_due(source, wanted, wake):
                return SyncResult("refused", source.status.last_error, commit_id)
            rollout = await self._apply(source, wanted, wake)
            result = "applied" if rollout.was_applied else "waiting"
            return SyncResult(result, rollout.status_description, commit_id, rollout.id)

    async def _fetched_commit(self, source: Source, wake: Wake) -> ResolvedRef | None:
        """Returns the remote's ref and its commit, fetched if it is new."""
        waiting, server = self._gatekeeper.waiting(self.name), self._services.synchronizer.own_name
        known = waiting.commit.id if waiting is not None else source.status.applied_commit
        try:
            wanted = await self._remotes.resolve(source, wake.trigger == POLL and not wake.force)
            if wanted.commit_id == known and known in self._mirror.held:
                return wanted
            await self._services.synchronizer.sync_refs_locked(self._mirror)
            if wanted.commit_id == known and self._mirror.open().has_commit(known):
                return wanted
            fetched = await self._remotes.fetch(source, wanted, self._mirror)
        except SourceError as error:
            if (
                known
                and waiting is not None
                and may_go_on(waiting, self._services.context.now_ns())
            ):
                _log.warning("applying what waits", source=self.name, error=str(error))
                return ResolvedRef(waiting.ref, known)
            if source.kind != SourceKind.LOCAL:
                raise
            raise SourceError(
                f"{error} (a local source is read on the machine of {server}, which leads)"
            ) from error
        self._services.maintenance.after_write(self._mirror)
        return ResolvedRef(wanted.name, fetched) if fetched is not None else None

    async def _builtin_commit(self, source: Source) -> ResolvedRef | None:
        """Returns the followed ref and its commit. Raises SourceError while this server, a new
        leader perhaps, lacks its objects."""
        missing = await self._services.synchronizer.sync_refs_locked(self._mirror)
        name, target = await self._followed(source)
        for object_id in (target, source.status.applied_commit):
            if object_id and object_id in missing:
                raise SourceError(
                    f"cannot apply source {source.name!r} yet: this server lacks commit "
                    f"{object_id[:12]} and is fetching it from the other servers"
                )
        commit_id = self._mirror.open().peel(target) if target else None
        return ResolvedRef(name, commit_id) if commit_id is not None else None

    async def _followed(self, source: Source) -> tuple[str, str | None]:
        """Returns the followed ref, and the object at which the log says that it is.

        Refs from before refs were in the log, and a branch that is followed before its first push,
        are entered there first.
        """
        with self._services.context.snapshot() as snapshot:
            known = snapshot.git_refs.of_source(source.repository_name)
        followed, applied = followed_ref(source, known), source.status.applied_commit
        repository = self._mirror.open()
        if is_commit_id(followed):
            return followed, followed if repository.has_commit(followed) else None
        is_branch = followed.startswith("refs/heads/")
        is_known = followed in known or not is_branch or not applied
        if is_known or not repository.has_commit(applied):
            return followed, known.get(followed)
        found = {} if known else repository.refs()
        moves = {ref: each for ref, each in found.items() if ref.startswith(PUBLIC_PREFIXES)}
        branch = repository.resolve(followed)
        if branch is None or repository.is_descendant(applied, branch):
            moves[followed] = branch = applied
        _log.info("entering refs in the log", source=source.name, refs=len(moves))
        entered = [RefMove(ref, "", each) for ref, each in moves.items()]
        await move_refs(self._services.context, source.name, entered)
        await self._services.synchronizer.sync_refs_locked(self._mirror)
        return followed, branch

    def _is_due(self, source: Source, wanted: ResolvedRef, wake: Wake) -> bool:
        """Returns whether to apply a new commit. A refused one is tried again only when forced, or
        when another error took the place of its problems in the source's status. Raises SourceError
        where history was rewritten or a tag went back."""
        commit_id = wanted.commit_id
        if commit_id == source.status.seen_commit and not wake.force:
            return error_kind(source) != SourceErrorKind.HELD
        applied = source.status.applied_commit
        descends = not applied or self._mirror.open().is_descendant(commit_id, applied)
        applied_ref = self._services.applier.applied_ref(source)
        refusal = refusal_of_move(source, wanted, applied_ref, descends)
        if refusal:
            raise SourceError(refusal)
        return True

    def _may_go_on(self, waiting: Rollout, wake: Wake) -> bool:
        """Returns whether to look at a waiting rollout again: when somebody asks for it, and when
        its record, the time or what it depends on says that a gate may be open."""
        context, needs_room = self._services.context, waits_for_room(waiting)
        tables = (*_TABLES_OF_GATES, *(_TABLES_OF_ROOM if needs_room else ()))
        seen = self._gates_seen
        self._gates_seen = (waiting.id, context.state.store.watch.index(tables))
        if wake.force or wake.override is not None or seen != self._gates_seen:
            return True
        return not needs_room and may_go_on(waiting, context.now_ns())

    async def _apply(self, source: Source, wanted: ResolvedRef, wake: Wake) -> Rollout:
        commit_id = wanted.commit_id
        services = self._services.noting(RequestWrites(author=wake.asker.author))
        applier, cache = services.applier, services.caches.of(self.name)
        read = await applier.read(self._mirror.open(), commit_id, source, cache)
        plan = await applier.plan(read, self.name, cache)
        kind = "poll" if wake.trigger == GATE_TRIGGER else wake.trigger
        trigger = Trigger(kind, wake.asker.name, ref=wanted.name)
        if plan.problems:
            if not self._is_recorded(commit_id, plan.problems):
                await applier.record_refused(source, read, plan.problems, trigger)
            await self._gatekeeper.withdraw(self.name, "its plan has problems now")
            count = len(plan.problems)
            text = f"refused commit {commit_id[:12]}: {count} problem{'s' * (count != 1)}: "
            text = (text + plan.problems[0])[:_MAX_ERROR_TEXT]
            status = replace(source.status, seen_commit=commit_id)
            await self._record(status, text, SourceErrorKind.HELD)
            raise JobFileError(f"cannot apply commit {commit_id[:12]}", plan.problems)
        await self._services.quorum.hold(self._mirror.name, [commit_id])
        rollout = await replace_services(self._gatekeeper, services=services).carry_out(
            read, plan, trigger, cache, override=wake.override
        )
        await self._services.synchronizer.sync_refs_locked(self._mirror)
        _log.info(
            "commit applied" if rollout.was_applied else "commit waits",
            source=self.name,
            commit=commit_id,
            rollout=rollout.id,
            jobs=len(rollout.jobs),
            parsed=read.discovery.parsed_count,
        )
        return rollout

    def _is_recorded(self, commit_id: str, problems: tuple[str, ...]) -> bool:
        """Returns whether the newest rollout of the commit says that it was refused for these
        problems."""
        with self._services.context.snapshot() as snapshot:
            newest = snapshot.rollouts.all(self.name, limit=1, commit_id=commit_id)
        return any(each.problems and each.problems[0] == problems[0] for each in newest)

    async def _failed(self, error: OrchgitError) -> SyncResult:
        """Logs the error each time, and records it in the source's status when it is a new one."""
        _log.warning("cannot reconcile", source=self.name, error=str(error))
        failures, commit_id = self.check.failures + 1, self._found
        self.check = replace(self.check, failures=failures, remote_commit=commit_id)
        kind = SourceErrorKind.HELD if commit_id else SourceErrorKind.UNREACHABLE
        async with self._mirror.lock:
            await self._record_error(str(error)[:_MAX_ERROR_TEXT], kind)
        return SyncResult("error", str(error), commit_id)

    async def _record_error(self, text: str, kind: SourceErrorKind = SourceErrorKind.NONE) -> None:
        """Records the last error in the source's status, if it is another. The caller holds the
        mirror's lock, as a revert does: a status is read and written back whole."""
        try:
            status = self._services.applier.source(self.name).status
            if status.last_error != text:
                await self._record(status, text, kind)
        except OrchgitError as error:
            _log.warning("cannot record an error", source=self.name, error=str(error))

    async def _record(self, status: SourceStatus, text: str, kind: SourceErrorKind) -> None:
        now_ns = self._services.context.now_ns()
        noted = replace(
            status,
            last_error=text,
            error_kind=kind,
            error_since_ns=(status.error_since_ns or now_ns) if text else 0,
            last_checked_ns=now_ns,
            last_success_ns=max(status.last_success_ns, self.check.last_success_ns),
        )
        await record_source_status(self._services.context, self.name, noted)
