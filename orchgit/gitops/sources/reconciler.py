"""One loop per source: brings its newest commit into the cluster, and nothing else ever out of it.

Polled, woken by webhooks, watches and people. One apply at a time per source (the mirror's lock);
commits that arrive meanwhile are superseded by the newest. Whatever goes wrong before the log entry
leaves the jobs as they are: an outage is an error in the source's status, never "no jobs".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import structlog
from msgspec.structs import replace

from orchgit.backoff import backoff_s
from orchgit.errors import JobFileError, OrchgitError, SourceError
from orchgit.gitops.commits.applier import CommitApplier, SourceCache
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.maintenance import Maintenance
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.mirrors.quorum import ObjectQuorum
from orchgit.gitops.mirrors.rules import PUBLIC_PREFIXES, full_ref
from orchgit.gitops.mirrors.synchronizer import MirrorSynchronizer
from orchgit.gitops.sources.access import credential_of, opened_url
from orchgit.gitops.sources.fetch import FETCHED_REF, update_mirror
from orchgit.gitops.sources.wakeups import Wake, Wakeups
from orchgit.model.base import NS_PER_S
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source, SourceKind
from orchgit.replication.commands import RefMove
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.sources import move_refs, record_source_status

_log = structlog.get_logger(component="gitops")

_JITTER_SHARE = 0.2
_MAX_BACKOFF_S = 300.0
_NEVER_AGAIN = 1 << 62


def _was_refused(source: Source, commit_id: str) -> bool:
    """Refused for good: it is tried again only when someone asks, or the settings change."""
    return commit_id == source.status.seen_commit


@dataclass(frozen=True, slots=True)
class ReconcilerPorts:
    """What the loops of all sources share."""

    context: UseCaseContext
    git: GitProcess
    applier: CommitApplier
    config: GitopsConfig
    random: Random
    memory: Callable[[str], SourceCache]
    maintenance: Maintenance
    synchronizer: MirrorSynchronizer
    quorum: ObjectQuorum


class SourceReconciler:
    """Follows one source until `run` is cancelled."""

    def __init__(self, name: str, mirror: Mirror, ports: ReconcilerPorts) -> None:
        self.name = name
        self._mirror = mirror
        self._ports = ports
        self._wakeups = Wakeups(ports.context.clock)
        self._failures = 0
        self._finished = 0
        self.last_checked_ns = 0
        """When a round last looked for commits, whatever came of it. Only this server's memory has
        it: a check that found nothing new writes no log entry."""
        self._round_done = asyncio.Condition()

    def wake(self, trigger: str, force: bool = False) -> None:
        self._wakeups.request(Wake(trigger, force))

    async def run(self) -> None:
        """Until cancelled; then nobody waits for a round any longer."""
        try:
            await self._follow()
        finally:
            await self._round_ended(_NEVER_AGAIN)

    async def _follow(self) -> None:
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
                _log.exception("a round of a source broke", source=self.name)
                await self._note_error(self._internal(error))
            await self._round_ended(self._wakeups.handled)

    def _internal(self, error: Exception) -> SourceError:
        return SourceError(
            f"cannot finish a round of source {self.name!r}: internal error "
            f"({type(error).__name__}: {error}); the log of {self._ports.synchronizer.own_name} "
            "has the traceback"
        )

    async def _round_ended(self, number: int) -> None:
        async with self._round_done:
            self._finished = number
            self._round_done.notify_all()

    async def round_after_now(self) -> None:
        """Wait until a round that started after this call has ended."""
        self.wake("api", force=True)
        asked = self._wakeups.requested
        async with self._round_done:
            await self._round_done.wait_for(lambda: self._finished >= asked)

    def _pause_s(self) -> float:
        """The poll interval with jitter; longer after each failure in a row, up to a bound."""
        try:
            interval_s = self._ports.applier.source(self.name).poll_interval_ns / NS_PER_S
        except OrchgitError:
            return _MAX_BACKOFF_S
        retry_s = backoff_s(min(self._failures, 8), interval_s, _MAX_BACKOFF_S)
        bounded_s = max(interval_s, retry_s)
        return bounded_s * (1 + _JITTER_SHARE * self._ports.random.random())

    async def reconcile(self, wake: Wake) -> Rollout | None:
        """One round. The rollout if a commit was applied. Raises what stopped it."""
        async with self._mirror.lock:
            source = self._ports.applier.source(self.name)
            if source.paused:
                return None
            self.last_checked_ns = self._ports.context.now_ns()
            commit_id = await self._newest_commit(source)
            if commit_id is not None and commit_id == source.status.applied_commit:
                await self._record_error("")
                return None
            if commit_id is None or not self._is_due(source, commit_id, wake):
                return None
            return await self._apply(source, commit_id, wake)

    async def _newest_commit(self, source: Source) -> str | None:
        if source.kind == SourceKind.BUILTIN:
            return await self._builtin_commit(source)
        await self._ports.synchronizer.sync_refs_locked(self._mirror)
        known = source.status.applied_commit
        if not self._mirror.open().has_commit(known):
            known = ""
        config, server = self._ports.config, self._ports.synchronizer.own_name
        url = await asyncio.to_thread(opened_url, config, source, server)
        credential = credential_of(config, source, server)
        try:
            commit_id = await update_mirror(
                self._ports.git, self._mirror.path, url, source.ref, known, credential
            )
        except SourceError as error:
            raise self._placed(source, error) from error
        if commit_id == known:
            return commit_id
        self._ports.maintenance.after_write(self._mirror)
        return self._mirror.open().resolve(FETCHED_REF)

    def _placed(self, source: Source, error: SourceError) -> SourceError:
        """A path is one on the machine of whichever server leads."""
        if source.kind != SourceKind.LOCAL:
            return error
        leader = self._ports.synchronizer.own_name
        return SourceError(
            f"{error} (a local source is read on the machine of {leader}, which leads)"
        )

    async def _builtin_commit(self, source: Source) -> str | None:
        """The branch's commit. A new leader may have to wait for objects: that is an outage, and
        changes nothing."""
        missing = await self._ports.synchronizer.sync_refs_locked(self._mirror)
        branch = await self._branch(source)
        for commit_id in (branch, source.status.applied_commit):
            if commit_id and commit_id in missing:
                raise SourceError(
                    f"cannot go on with source {source.name!r} yet: this server lacks commit "
                    f"{commit_id[:12]} and is fetching it from the other servers"
                )
        return branch

    async def _branch(self, source: Source) -> str | None:
        """Where the log says that the branch is. Refs from before they were in the log, and a
        branch that is followed before it was ever pushed, are entered there first."""
        with self._ports.context.snapshot() as snapshot:
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
        await move_refs(self._ports.context, source.name, entered)
        await self._ports.synchronizer.sync_refs_locked(self._mirror)
        return branch

    def _is_due(self, source: Source, commit_id: str, wake: Wake) -> bool:
        if commit_id in source.status.quarantined:
            return False
        if _was_refused(source, commit_id) and not wake.force:
            return False
        applied = source.status.applied_commit
        descends = not applied or self._mirror.open().is_descendant(commit_id, applied)
        if not descends and not source.allow_rewind:
            raise SourceError(
                f"cannot apply commit {commit_id[:12]} of source {source.name!r}: it does not "
                f"descend from the applied commit {applied[:12]}; was history rewritten? "
                "Set allow_rewind to accept it"
            )
        return True

    async def _apply(self, source: Source, commit_id: str, wake: Wake) -> Rollout:
        repository = self._mirror.open()
        memory = self._ports.memory(self.name)
        applier = self._ports.applier
        read = await applier.read(repository, commit_id, source, memory)
        plan = await applier.plan(read, self.name, memory)
        trigger = Trigger(wake.trigger)
        if plan.problems:
            await applier.record_refused(source, read, plan.problems, trigger)
            await self._note_refused(source, commit_id, plan.problems)
            raise JobFileError(f"cannot apply commit {commit_id[:12]}", plan.problems)
        await self._ports.quorum.hold(self.name, [commit_id])
        rollout = await applier.apply(read, plan, trigger, memory)
        await self._ports.synchronizer.sync_refs_locked(self._mirror)
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
        first = problems[0] if problems else ""
        text = f"refused commit {commit_id[:12]}: {len(problems)} problem(s): {first}"
        status = replace(
            source.status,
            seen_commit=commit_id,
            last_error=text[:1000],
            last_checked_ns=self._ports.context.now_ns(),
        )
        await record_source_status(self._ports.context, self.name, status)

    async def _note_error(self, error: OrchgitError) -> None:
        """In the log each time; in the source's status only when it says something new."""
        _log.warning("cannot reconcile", source=self.name, error=str(error))
        if isinstance(error, JobFileError):
            return  # noted with its problems already
        async with self._mirror.lock:
            await self._record_error(str(error)[:1000])

    async def _record_error(self, text: str) -> None:
        """The caller holds the mirror's lock, as a revert does that notes what it took back in the
        same status: whoever wrote what was read before would undo the other's."""
        try:
            status = self._ports.applier.source(self.name).status
            if status.last_error != text:
                now_ns = self._ports.context.now_ns()
                noted = replace(status, last_error=text, last_checked_ns=now_ns)
                await record_source_status(self._ports.context, self.name, noted)
        except OrchgitError as error:
            _log.warning("cannot record an error", source=self.name, error=str(error))
