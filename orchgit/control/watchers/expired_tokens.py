"""Deletes tokens some time after they expired, and one-time tokens as soon as they have. An expired
token is refused from its first moment on, whether it is deleted or not."""

from __future__ import annotations

import structlog

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.wakeup import Wakeup
from orchgit.errors import OrchgitError
from orchgit.replication.commands.acl import DeleteAclTokens
from orchgit.replication.commands.acl_logins import DeleteOneTimeTokens
from orchgit.replication.events import AppliedBatch
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

PER_ENTRY = 1000
_RETRY_S = 5.0
_LONGEST_WAIT_S = 600.0
"""The wall clock may be set: it is asked again after this time at the latest."""
_TABLES = ("acl_tokens", "acl_one_time_tokens")


class ExpiredTokens:
    """Waits for the next token to delete; nothing is kept in memory."""

    def __init__(self, state: ReplicatedState, clock: Clock, kept_s: float) -> None:
        """`kept_s` is how long operators can look at an expired token."""
        self._kept_ns = round(kept_s * SECOND_NS)
        self._state = state
        self._clock = clock
        self._changed = Wakeup(clock)

    def restore(self, snapshot: Snapshot) -> None:
        """There is nothing to restore: `run` reads the state first."""

    def take(self, batch: AppliedBatch) -> None:
        if any(table in batch.changed for table in _TABLES):
            self._changed.set()

    async def run(self) -> None:
        while True:
            try:
                wait_s = await self._collect()
            except OrchgitError as error:
                _log.warning("cannot delete expired tokens", error=str(error))
                wait_s = _RETRY_S
            await self._changed.wait(wait_s)

    async def _collect(self) -> float | None:
        """Deletes what is due. Returns the seconds until more may be; None: when tokens change."""
        now_ns = self._clock.now_ns()
        with self._state.store.snapshot() as snapshot:
            tokens = snapshot.acl_tokens.expired(now_ns - self._kept_ns, PER_ENTRY)
            one_time = snapshot.acl_one_time_tokens.expired(now_ns, PER_ENTRY)
            moments = (
                snapshot.acl_tokens.next_expiration_ns(),
                snapshot.acl_one_time_tokens.next_expiration_ns(),
            )
        if tokens:
            ids = [token.accessor_id for token in tokens]
            command = DeleteAclTokens(now_ns=now_ns, accessor_ids=ids, missing_ok=True)
            await self._state.propose(command)
            _log.info("expired tokens deleted", count=len(ids))
        if one_time:
            hashes = [token.secret_hash for token in one_time]
            await self._state.propose(DeleteOneTimeTokens(now_ns=now_ns, secret_hashes=hashes))
        if tokens or one_time:
            return 0.0
        kept_ns = (self._kept_ns, 0)
        due = [moment + kept for moment, kept in zip(moments, kept_ns, strict=True) if moment]
        if not due:
            return None
        return min(max(min(due) - now_ns, 0) / SECOND_NS, _LONGEST_WAIT_S)
