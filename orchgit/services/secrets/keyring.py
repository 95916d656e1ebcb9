"""Root keys: makes them, wraps them with the cluster key for the log, keeps them open in memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from orchgit.errors import ConflictError, UnavailableError
from orchgit.model.acl import SealedSecret
from orchgit.model.variable import RootKey, RootKeyState, StoredVariable
from orchgit.model.workload_identity import hands_out_tokens
from orchgit.replication.commands.acl import ResealAclSecrets
from orchgit.replication.commands.root_keys import DeleteRootKey, PutRootKey
from orchgit.replication.commands.variables import ResealVariables
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.sealing import (
    KeyMaterial,
    Sealer,
    SealError,
    Signer,
    new_material,
)
from orchgit.state.snapshot import Snapshot
from orchgit.state.tables_cache import TablesCache

_MATERIAL = msgspec.msgpack.Decoder(KeyMaterial)
_RESEALED_PER_ENTRY = 100
_CHECKED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class _OpenKey:
    sealer: Sealer
    signer: Signer


def _check_holders(snapshot: Snapshot, key_id: str) -> None:
    """Raises ConflictError while tasks run that began before the key was retired and get tokens."""
    key = snapshot.root_keys.get(key_id)
    if key is None or key.state == RootKeyState.ACTIVE:
        return
    every = snapshot.allocations.keys()
    earlier = [id_ for at, id_ in every if at < key.modify_index]
    for start in range(0, len(earlier), _CHECKED_AT_ONCE):
        for alloc in snapshot.allocations.get_many(earlier[start : start + _CHECKED_AT_ONCE]):
            job = snapshot.job_versions.of_allocation(alloc)
            group = job.group(alloc.task_group) if job is not None else None
            tasks = group.tasks if group is not None and not alloc.is_client_terminal else ()
            task = next(filter(hands_out_tokens, tasks), None)
            if task is not None:
                raise ConflictError(
                    f"cannot delete root key {key_id!r}: task {task.name!r} of allocation "
                    f"{alloc.id} has run since before a newer key was made, and may hold a token "
                    "that this one signed; stop such allocations (`alloc stop`), so that others "
                    "take their places, or use -force: then these tokens are refused at once"
                )


class Keyring:
    """Seals, opens and signs with the cluster's root keys. Belongs to one event loop."""

    def __init__(self, context: UseCaseContext, cluster_key: bytes) -> None:
        self._context = context
        self._wrapping = Sealer(cluster_key)
        self._open: dict[str, _OpenKey] = {}
        self._active = TablesCache(("root_keys",), lambda snapshot: snapshot.root_keys.active())
        self._making = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Keyring({len(self._open)} open keys)"

    async def active_key(self, context: UseCaseContext) -> RootKey:
        """Returns the key that seals new items; makes the first one when it is first needed."""
        found = self._stored_active_key()
        if found is not None:
            return found
        async with self._making:
            return self._stored_active_key() or await self._make(context, only_first=True)

    async def rotate(self, context: UseCaseContext, full: bool) -> RootKey:
        """Makes a new active key.

        With `full`, what older keys seal is sealed again with the new one, so that they can be
        deleted.
        """
        async with self._making:
            key = await self._make(context, only_first=False)
        if full:
            await self._reseal_variables(context, key)
            await self._reseal_acl(context, key)
        return key

    async def delete(self, context: UseCaseContext, key_id: str, force: bool = False) -> int:
        """Deletes the key. Raises ConflictError while it is active or seals something and, unless
        forced, while running tasks may hold tokens that it signed."""
        if not force:
            with context.snapshot() as snapshot:
                # In a thread: there may be many allocations.
                await asyncio.to_thread(_check_holders, snapshot, key_id)
        applied = await context.propose(DeleteRootKey(now_ns=context.now_ns(), key_id=key_id))
        self._open.pop(key_id, None)
        return applied.index

    def opens(self, key: RootKey) -> bool:
        """Returns whether this server's cluster key wrapped the root key."""
        try:
            self._wrapping.unseal(key.key_id, key.wrapped)
        except SealError:
            return False
        return True

    def seal(self, key: RootKey, owner: str, plain: bytes) -> bytes:
        return self._opened(key).sealer.seal(owner, plain)

    def sign(self, key: RootKey, data: bytes) -> bytes:
        """Returns an RS256 signature, which the key's public half verifies."""
        return self._opened(key).signer.sign(data)

    def unseal(self, variable: StoredVariable) -> bytes:
        """Returns the items of a variable, as they were before `seal`."""
        named = f"variable {variable.path!r}"
        return self._key(variable.key_id, named).sealer.unseal(variable.key, variable.sealed)

    def unseal_secret(self, owner: str, secret: SealedSecret) -> bytes:
        """Returns the secret of `owner`, as it was before `seal`."""
        opened = self._key(secret.key_id, f"the secret of {owner!r}")
        return opened.sealer.unseal(owner, secret.sealed)

    # -- inside --------------------------------------------------------------------------------

    def _stored_active_key(self) -> RootKey | None:
        return self._active.get(self._context.state.store)

    async def _make(self, context: UseCaseContext, only_first: bool) -> RootKey:
        material, public = await asyncio.to_thread(new_material)
        key_id = context.ids.new()
        wrapped = self._wrapping.seal(key_id, msgspec.msgpack.encode(material))
        key = RootKey(key_id=key_id, wrapped=wrapped, public_n=public.n, public_e=public.e)
        applied = await context.propose(
            PutRootKey(now_ns=context.now_ns(), key=key, only_first=only_first)
        )
        stored = applied.result
        assert isinstance(stored, RootKey)
        return stored

    def _key(self, key_id: str, named: str) -> _OpenKey:
        """Returns the root key, opened; `named` is what it seals."""
        found = self._open.get(key_id)
        if found is not None:
            return found
        with self._context.snapshot() as snapshot:
            key = snapshot.root_keys.get(key_id)
        if key is None:
            raise UnavailableError(
                f"cannot open {named}: its root key was deleted meanwhile; read it again"
            )
        return self._opened(key)

    def _opened(self, key: RootKey) -> _OpenKey:
        found = self._open.get(key.key_id)
        if found is None:
            try:
                plain = self._wrapping.unseal(key.key_id, key.wrapped)
            except SealError as error:
                raise UnavailableError(
                    f"cannot open root key {key.key_id}: this server's cluster key did not wrap "
                    "it; copy the cluster key file of a server that can, and restart"
                ) from error
            material = _MATERIAL.decode(plain)
            found = _OpenKey(Sealer(material.sealing), Signer(material.signing))
            self._open[key.key_id] = found
        return found

    async def _reseal_acl(self, context: UseCaseContext, key: RootKey) -> None:
        while True:
            with context.snapshot() as snapshot:
                tokens = snapshot.acl_tokens.not_sealed_by(key.key_id, _RESEALED_PER_ENTRY)
                methods = snapshot.acl_auth_methods.not_sealed_by(key.key_id, _RESEALED_PER_ENTRY)
            if not tokens and not methods:
                return
            command = ResealAclSecrets(
                now_ns=context.now_ns(),
                tokens=[
                    replace(each, secret=self._resealed(key, each.sealed_for, each.secret))
                    for each in tokens
                ],
                methods=[
                    replace(each, secrets=self._resealed(key, each.sealed_for, each.secrets))
                    for each in methods
                    if each.secrets is not None
                ],
            )
            await context.propose(command)

    def _resealed(self, key: RootKey, owner: str, secret: SealedSecret) -> SealedSecret:
        sealed = self.seal(key, owner, self.unseal_secret(owner, secret))
        return SealedSecret(key_id=key.key_id, sealed=sealed)

    async def _reseal_variables(self, context: UseCaseContext, key: RootKey) -> None:
        """Seals a few variables per entry; an entry changes only those that did not change since
        they were read."""
        while True:
            with context.snapshot() as snapshot:
                old = snapshot.variables.not_sealed_by(key.key_id, _RESEALED_PER_ENTRY)
            if not old:
                return
            resealed = [
                replace(
                    each,
                    key_id=key.key_id,
                    sealed=self.seal(key, each.key, self.unseal(each)),
                )
                for each in old
            ]
            await context.propose(ResealVariables(now_ns=context.now_ns(), variables=resealed))
