"""Variables: small maps of secrets and settings, with compare-and-set and locks.

Items are sealed before they are proposed: the log, the store and its snapshots hold ciphertext.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from orchgit.clock import SECOND_NS
from orchgit.errors import InvalidInputError, NotFoundError
from orchgit.model.variable import StoredVariable, VariableLock, variable_key
from orchgit.replication.commands.variables import (
    AcquireVariableLock,
    DeleteVariable,
    ReleaseVariableLock,
    RenewVariableLock,
    UpsertVariable,
)
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.admission import multiple_errors
from orchgit.services.secrets.keyring import Keyring

MAX_ITEMS_BYTES = 64 << 10
DEFAULT_LOCK_NS = 15 * SECOND_NS
MIN_LOCK_TTL_NS = 10 * SECOND_NS
MAX_LOCK_TTL_NS = 24 * 3600 * SECOND_NS
_PATH = re.compile(r"[a-zA-Z0-9\-_~/]{1,128}")
_RESERVED = {
    "nomad": '"nomad" is reserved: write below "nomad/jobs" or "nomad/job-templates"',
    "nomad/": '"nomad/" is reserved: write below "nomad/jobs" or "nomad/job-templates"',
    "nomad/job-templates": '"nomad/job-templates" is reserved: write to a path below it',
    "nomad/job-templates/": '"nomad/job-templates/" is reserved: write to a path below it',
}
_OPEN_DIRECTORIES = ("nomad/jobs", "nomad/job-templates")

Items = dict[str, str]
_DECODE_ITEMS = msgspec.msgpack.Decoder(Items).decode


@dataclass(frozen=True, slots=True)
class NewVariable:
    """What a caller wants stored; its items stay out of logs and tracebacks."""

    namespace: str
    path: str
    items: Items = field(repr=False)

    @property
    def key(self) -> str:
        return variable_key(self.namespace, self.path)


@dataclass(frozen=True, slots=True)
class WantedLock:
    """A lock to take or renew; `id` is "" for a new one."""

    id: str = ""
    ttl_ns: int = DEFAULT_LOCK_NS
    lock_delay_ns: int = DEFAULT_LOCK_NS


@dataclass(frozen=True, slots=True)
class VariableUseCases:
    """Writes and locks variables.

    Conditions that do not hold raise VariableConflictError, with the `current` variable.
    """

    context: UseCaseContext
    keyring: Keyring

    def items(self, variable: StoredVariable) -> Items:
        """Returns the items in plain text, only for the answer to a caller who may read them."""
        return _DECODE_ITEMS(self.keyring.unseal(variable))

    async def put(
        self, new: NewVariable, expected_index: int | None = None, lock_id: str = ""
    ) -> StoredVariable:
        command = UpsertVariable(
            now_ns=self.context.now_ns(),
            variable=await self._sealed(new),
            expected_modify_index=expected_index,
            lock_id=lock_id,
        )
        return _stored((await self.context.propose(command)).result)

    async def delete(self, namespace: str, path: str, expected_index: int | None = None) -> int:
        command = DeleteVariable(
            now_ns=self.context.now_ns(),
            namespace=namespace,
            path=path,
            expected_modify_index=expected_index,
        )
        return (await self.context.propose(command)).index

    async def acquire_lock(self, new: NewVariable, wanted: WantedLock) -> StoredVariable:
        """Takes the lock. Without new items, an existing variable keeps those it has."""
        _check_lock(wanted)
        lock = VariableLock(
            id=wanted.id or self.context.ids.new(),
            ttl_ns=wanted.ttl_ns,
            lock_delay_ns=wanted.lock_delay_ns,
        )
        command = AcquireVariableLock(
            now_ns=self.context.now_ns(),
            variable=await self._sealed(new),
            lock=lock,
            keep_items=not new.items,
        )
        return _stored((await self.context.propose(command)).result)

    async def renew_lock(self, namespace: str, path: str, lock_id: str) -> StoredVariable:
        """Starts the lock's TTL again; the leader counts it
        (control/watchers/variable_locks.py)."""
        _check_lock_id(lock_id)
        self._check_known(namespace, path)
        now_ns = self.context.now_ns()
        command = RenewVariableLock(now_ns=now_ns, namespace=namespace, path=path, lock_id=lock_id)
        return _stored((await self.context.propose(command)).result)

    async def release_lock(self, namespace: str, path: str, lock_id: str) -> StoredVariable:
        _check_lock_id(lock_id)
        self._check_known(namespace, path)
        now_ns = self.context.now_ns()
        command = ReleaseVariableLock(
            now_ns=now_ns, namespace=namespace, path=path, lock_id=lock_id
        )
        return _stored((await self.context.propose(command)).result)

    def _check_known(self, namespace: str, path: str) -> None:
        """Refuses unknown paths before the log, so that guesses at paths do not fill it."""
        with self.context.snapshot() as snapshot:
            if snapshot.variables.get(namespace, path) is None:
                raise NotFoundError("variable not found")

    async def _sealed(self, new: NewVariable) -> StoredVariable:
        check_path(new.path)
        size = sum(len(name.encode()) + len(value.encode()) for name, value in new.items.items())
        if size > MAX_ITEMS_BYTES:
            limit = f"{MAX_ITEMS_BYTES >> 10}KiB"
            raise InvalidInputError(f"variables are limited to {limit} in total size")
        key = await self.keyring.active_key(self.context)
        plain = msgspec.msgpack.encode(new.items)
        return StoredVariable(
            namespace=new.namespace,
            path=new.path,
            key_id=key.key_id,
            sealed=self.keyring.seal(key, new.key, plain),
        )


def check_path(path: str) -> None:
    """Raises InvalidInputError for a path that no variable may have."""
    if not _PATH.fullmatch(path):
        raise InvalidInputError(f'invalid path "{path}"')
    if path in _RESERVED:
        raise InvalidInputError(_RESERVED[path])
    allowed = path in _OPEN_DIRECTORIES or path.startswith(
        tuple(f"{name}/" for name in _OPEN_DIRECTORIES)
    )
    if path.startswith("nomad/") and not allowed:
        raise InvalidInputError(
            'only paths at "nomad/jobs" or "nomad/job-templates" and below are valid paths under '
            'the top-level "nomad" directory'
        )


def _check_lock(lock: WantedLock) -> None:
    if not MIN_LOCK_TTL_NS <= lock.ttl_ns <= MAX_LOCK_TTL_NS:
        problem = "TTL must be between 10 seconds and 24 hours"
        raise InvalidInputError(multiple_errors([problem]))
    if not 0 <= lock.lock_delay_ns <= MAX_LOCK_TTL_NS:
        raise InvalidInputError("cannot lock: lock delay must be between 0 and 24 hours")


def _check_lock_id(lock_id: str) -> None:
    if not lock_id:
        raise InvalidInputError("cannot use a lock without its id: missing lock ID")


def _stored(result: object) -> StoredVariable:
    assert isinstance(result, StoredVariable)
    return result
