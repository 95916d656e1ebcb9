"""The loop of one source: brings its newest commit into the cluster.

A round is caused by a poll, a webhook, a watch or a person. The mirror's lock keeps one commit of a
source at a time under way; of commits that arrive meanwhile only the newest is applied. Whatever
goes wrong before the log entry is an error in the source's status and leaves the jobs as they are.
"""

from __future__ import annotations

import asyncio
from random import Random

import structlog
from msgspec.structs import replace

from orchgit.backoff import backoff_s
from orchgit.errors import JobFileError, OrchgitError, SourceError
from orchgit.gitops.commits.gatekeeper import Gatekeeper
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.gates.decide import may_go_on, waits_for_room
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.mirrors.rules import PUBLIC_PREFIXES, full_ref
from orchgit.gitops.sources.access import credential_of, opened_url
from orchgit.gitops.sources.fetch import FETCHED_REF, update_mirror
from orchgit.gitops.sources.gate_loop import GATE_TRIGGER
from orchgit.gitops.sources.wakeups import Wake, Wakeups
from orchgit.model.base import NS_PER_S
from orchgit.model.gates import WindowOverride
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source, SourceKind
from orchgit.replication.commands import RefMove
from orchgit.services.gitops.pauses import resume_when_due
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

    `last_checked_ns` is when a round last looked for commits, in Unix nanoseconds, whatever came of
    it. It is kept in this server's memory only: a check that finds nothing writes no log entry.
    """

    def __init__(
        self,
        name: str,
        mirror: Mirror,
        services: CommitServices,
        config: GitopsConfig,
        random: Random,
        gatekeeper: Gatekeeper,
    ) -> None:
        self.name = name
        self.last_checked_ns = 0
        self._mirror = mirror
        self._services = services
        self._config = config
        self._random = random
        self._gatekeeper = gatekeeper
        self._gates_seen: tuple[str, int] = ("", 0)
        self._wakeups = Wakeups(services.context.clock)
        self._failures = 0
        self._finished_round = 0
        self._round_done = asyncio.Condition()

    def wake(self, trigger: str, force: bool = False) -> None:
        """Causes a round. With `force` it tries a refused commit again."""
        self._wakeups.request(Wake(trigger, force))

    async def run(self) -> None:
        """Runs rounds until cancelled; then nobody waits for a round any longer."""
        try:
            self.wake("poll")
            while True:
                wake = await self._wakeups.next(self._pause_s())
                try:
                    await self.reconcile(wake)
                    self._failures = 0
                except OrchgitError as error:
                    self._failures += 1
                    await self._note_error(error)
                except Exception as error:  # noqa: BLE001 - one bad round must not end the loop
                    self._failures += 1
                    _log.exception("a round of a source failed", source=self.name)
                    await self._note_error(
                        SourceError(
                            f"cannot finish a round of source {self.name!r}: internal error "
                            f"({type(error).__name__}: {error}); the log of "
                            f"{self._services.synchronizer.own_name} has the traceback"
                        )
                    )
                await self._round_ended(self._wakeups.handled)
        finally:
            await self._round_ended(_LAST_ROUND)

    async def _round_ended(self, number: int) -> None:
        async with self._round_done:
            self._finished_round = number
            self._round_done.notify_all()

    async def round_after_now(self, override: WindowOverride | None = None) -> None:
        """Causes a round, and returns when one that started after this call has ended. With
        `override` that round applies a commit outside its windows."""
        self._wakeups.request(Wake("api", True, override))
        asked = self._wakeups.requested
        async with self._round_done:
            await self._round_done.wait_for(lambda: self._finished_round >= asked)

    def _pause_s(self) -> float:
        """Returns the poll interval with jitter; longer after each failure in a row, up to a
        bound, and at most until the source resumes by itself."""
        try:
            source = self._services.applier.source(self.name)
        except OrchgitError:
            return _MAX_BACKOFF_S
        interval_s = source.poll_interval_ns / NS_PER_S
        retry_s = backoff_s(min(self._failures, 8), interval_s, _MAX_BACKOFF_S)
        bounded_s = max(interval_s, retry_s) * (1 + _JITTER_SHARE * self._random.random())
        if source.paused and source.pause.until_ns:
            left_ns = source.pause.until_ns - self._services.context.now_ns()
            return min(bounded_s, max(0.0, left_ns / NS_PER_S))
        return bounded_s

    async def reconcile(self, wake: Wake) -> Rollout | None:
        """Does one round. Returns the rollout if a commit was applied. Raises what stopped it."""
        async with self._mirror.lock:
            source = self._services.applier.source(self.name)
            if source.paused and await resume_when_due(self._services.context, source):
                _log.info("the pause of a source is over", source=self.name)
                source = self._services.applier.source(self.name)
            if source.paused:
                return None
            self.last_checked_ns = self._services.context.now_ns()
            if source.kind == SourceKind.BUILTIN:
                commit_id = await self._builtin_commit(source)
            else:
                commit_id = await self._fetched_commit(source)
            if commit_id is not None and commit_id == source.status.applied_commit:
                await self._record_error("")
                await self._gatekeeper.withdraw(self.name, "its commit is not wanted any more")
                return None
            if commit_id is None or not self._is_due(source, commit_id, wake):
                return None
            return await self._apply(source, commit_id, wake)

    async def _fetched_commit(self, source: Source) -> str | None:
        """Returns the commit of the remote's ref, fetched if it is new."""
        await self._services.synchronizer.sync_refs_locked(self._mirror)
        waiting = self._gatekeeper.waiting(self.name)
        known = waiting.commit.id if waiting is not None else source.status.applied_commit
        if not self._mirror.open().has_commit(known):
            known = ""
        server = self._services.synchronizer.own_name
        url = await asyncio.to_thread(opened_url, self._config, source, server)
        credential = credential_of(self._config, source, server)
        try:
            commit_id = await update_mirror(
                self._services.git, self._mirror.path, url, source.ref, known, credential
            )
        except SourceError as error:
            if (
                known
                and waiting is not None
                and may_go_on(waiting, self._services.context.now_ns())
            ):
                _log.warning("applying what waits", source=self.name, error=str(error))
                return known
            if source.kind != SourceKind.LOCAL:
                raise
            raise SourceError(
                f"{error} (a local source is read on the machine of {server}, which leads)"
            ) from error
        if commit_id == known:
            return commit_id
        self._services.maintenance.after_write(self._mirror)
        return self._mirror.open().resolve(FETCHED_REF)

    async def _builtin_commit(self, source: Source) -> str | None:
        """Returns the branch's commit. Raises SourceError while this server, a new leader perhaps,
        lacks its objects."""
        missing = await self._services.synchronizer.sync_refs_locked(self._mirror)
        branch = await self._branch(source)
        for commit_id in (branch, source.status.applied_commit):
            if commit_id and commit_id in missing:
                raise SourceError(
                    f"cannot apply source {source.name!r} yet: this server lacks commit "
                    f"{commit_id[:12]} and is fetching it from the other servers"
                )
        return branch

    async def _branch(self, source: Source) -> str | None:
        """Returns where the log says that the branch is. Refs from before refs were in the log, and
        a branch that is followed before its first push, are entered there first."""
        with self._services.context.snapshot() as snapshot:
            known = snapshot.git_refs.of_source(source.name)
        followed, applied = full_ref(source.ref), source.status.applied_commit
        repository = self._mirror.open()
        if followed in known or not applied or not repository.has_commit(applied):
            return known.get(followed)
        found = {} if known else repository.refs()
        moves = {ref: each for ref, each in found.items() if ref.startswith(PUBLIC_PREFIXES)}
        branch = repository.resolve(followed)
        if branch is None or repository.is_descendant(applied, branch):
            moves[followed] = branch = applied
        _log.info("entering refs in the log", source=source.name, refs=len(moves))
        entered = [RefMove(ref, "", each) for ref, each in moves.items()]
        await move_refs(self._services.context, source.name, entered)
        await self._services.synchronizer.sync_refs_locked(self._mirror)
        return branch

    def _is_due(self, source: Source, commit_id: str, wake: Wake) -> bool:
        """Returns whether to apply a new commit. A quarantined one is never applied, a refused one
        only when forced. Raises SourceError where history was rewritten."""
        if commit_id in source.status.quarantined:
            return False
        waiting = self._gatekeeper.waiting(self.name, commit_id)
        if waiting is not None:
            return self._may_go_on(waiting, wake)
        if commit_id == source.status.seen_commit and not wake.force:
            return False
        applied = source.status.applied_commit
        descends = not applied or self._mirror.open().is_descendant(commit_id, applied)
        if not descends and not source.allow_rewind:
            raise SourceError(
                f"cannot apply commit {commit_id[:12]} of source {source.name!r}: it does not "
                f"descend from the applied commit {applied[:12]}; was history rewritten? "
                f"`orchgit source set {source.name} -allow-rewind` accepts it"
            )
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

    async def _apply(self, source: Source, commit_id: str, wake: Wake) -> Rollout | None:
        applier, cache = self._services.applier, self._services.caches.of(self.name)
        read = await applier.read(self._mirror.open(), commit_id, source, cache)
        plan = await applier.plan(read, self.name, cache)
        trigger = Trigger("poll" if wake.trigger == GATE_TRIGGER else wake.trigger)
        if plan.problems:
            await applier.record_refused(source, read, plan.problems, trigger)
            await self._note_refused(source, commit_id, plan.problems)
            raise JobFileError(f"cannot apply commit {commit_id[:12]}", plan.problems)
        await self._services.quorum.hold(self.name, [commit_id])
        rollout = await self._gatekeeper.carry_out(
            read, plan, trigger, cache, override=wake.override
        )
        await self._services.synchronizer.sync_refs_locked(self._mirror)
        if rollout.is_waiting:
            _log.info(
                "commit waits",
                source=self.name,
                commit=commit_id,
                rollout=rollout.id,
                why=rollout.status_description,
            )
            return None
        _log.info(
            "commit applied",
            source=self.name,
            commit=commit_id,
            rollout=rollout.id,
            jobs=len(rollout.jobs),
            parsed=read.discovery.parsed_count,
        )
        return rollout

    async def _note_refused(
        self, source: Source, commit_id: str, problems: tuple[str, ...]
    ) -> None:
        count = len(problems)
        text = f"refused commit {commit_id[:12]}: {count} problem{'s' * (count != 1)}: "
        status = replace(
            source.status,
            seen_commit=commit_id,
            last_error=(text + problems[0])[:_MAX_ERROR_TEXT],
            last_checked_ns=self._services.context.now_ns(),
        )
        await record_source_status(self._services.context, self.name, status)

    async def _note_error(self, error: OrchgitError) -> None:
        """Logs the error each time, and records it in the source's status when it is a new one."""
        _log.warning("cannot reconcile", source=self.name, error=str(error))
        if isinstance(error, JobFileError):
            return  # recorded with its problems already
        async with self._mirror.lock:
            await self._record_error(str(error)[:_MAX_ERROR_TEXT])

    async def _record_error(self, text: str) -> None:
        """Records the last error in the source's status, if it is another. The caller holds the
        mirror's lock, as a revert does: a status is read and written back whole."""
        context = self._services.context
        try:
            status = self._services.applier.source(self.name).status
            if status.last_error != text:
                noted = replace(status, last_error=text, last_checked_ns=context.now_ns())
                await record_source_status(context, self.name, noted)
        except OrchgitError as error:
            _log.warning("cannot record an error", source=self.name, error=str(error))
