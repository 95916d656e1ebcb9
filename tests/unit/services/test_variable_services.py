"""Variables through their services: what is taken, what is refused, what lies on disk."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from orchgit.errors import InvalidInputError, NotFoundError, UnavailableError
from orchgit.model.variable import VariableConflictError
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.cluster_key import read_or_make_cluster_key
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.secrets.sealing import Sealer, SealError, new_key
from orchgit.services.secrets.variables import (
    MAX_ITEMS_BYTES,
    NewVariable,
    VariableUseCases,
    WantedLock,
    check_path,
)
from tests.support.use_cases import with_context

SECOND_NS = 1_000_000_000


def with_variables(work: Callable[[VariableUseCases], Awaitable[None]]) -> None:
    async def run(context: UseCaseContext) -> None:
        await work(VariableUseCases(context, Keyring(context, new_key())))

    with_context(run)


def new(path: str = "app/db", **items: str) -> NewVariable:
    return NewVariable("default", path, items or {"user": "ada"})


def test_items_are_read_as_written() -> None:
    async def work(variables: VariableUseCases) -> None:
        items = {"password": "s3cr3t\n", "ümlaut": "\N{SNOWMAN}", "empty": ""}
        stored = await variables.put(NewVariable("default", "app/db", items))
        assert variables.items(stored) == items
        with variables.context.snapshot() as snapshot:
            found = snapshot.variables.get("default", "app/db")
        assert found == stored

    with_variables(work)


def test_conflict_carries_the_current_variable() -> None:
    async def work(variables: VariableUseCases) -> None:
        stored = await variables.put(new(), expected_index=0)
        with pytest.raises(VariableConflictError) as caught:
            await variables.put(new(user="bob"), expected_index=0)
        assert caught.value.current == stored
        with pytest.raises(VariableConflictError):
            await variables.delete("default", "app/db", expected_index=1)
        await variables.delete("default", "app/db", stored.modify_index)
        await variables.delete("default", "app/db")

    with_variables(work)


@pytest.mark.parametrize(
    "path", ["a", "a/b_c~d-e/", "nomad/jobs", "nomad/jobs/x/g/t", "nomad/job-templates/x", "nomads"]
)
def test_valid_variable_path_is_accepted(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path",
    [
        *("", "a b", "ä", "a.b", "a" * 129, "a\n", "nomad", "nomad/", "nomad/x", "nomad/jobsx"),
        *("nomad/job-templates", "nomad/job-templates/"),
    ],
)
def test_invalid_variable_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidInputError):
        check_path(path)


def test_variable_above_the_size_limit_is_refused_naming_the_limit() -> None:
    async def work(variables: VariableUseCases) -> None:
        await variables.put(new(k="v" * (MAX_ITEMS_BYTES - 1)))
        with pytest.raises(InvalidInputError, match="limited to 64KiB"):
            await variables.put(new(k="v" * MAX_ITEMS_BYTES))

    with_variables(work)


def test_lock_is_acquired_renewed_and_released() -> None:
    async def work(variables: VariableUseCases) -> None:
        await variables.put(new())
        held = await variables.acquire_lock(NewVariable("default", "app/db", {}), WantedLock())
        assert variables.items(held) == {"user": "ada"}
        assert held.lock_id
        await variables.renew_lock("default", "app/db", held.lock_id)
        with pytest.raises(VariableConflictError):
            await variables.acquire_lock(new(), WantedLock())
        with pytest.raises(InvalidInputError, match="lock ID"):
            await variables.release_lock("default", "app/db", "")
        with pytest.raises(NotFoundError):
            await variables.renew_lock("default", "nowhere", held.lock_id)
        released = await variables.release_lock("default", "app/db", held.lock_id)
        assert released.lock is None

    with_variables(work)


@pytest.mark.parametrize("ttl_s", [0, 9, 24 * 3600 + 1])
def test_lock_ttl_outside_ten_seconds_to_a_day_is_refused(ttl_s: int) -> None:
    async def work(variables: VariableUseCases) -> None:
        with pytest.raises(InvalidInputError, match="TTL"):
            await variables.acquire_lock(new(), WantedLock(ttl_ns=ttl_s * SECOND_NS))

    with_variables(work)


def test_old_key_can_be_removed_after_a_full_rotation() -> None:
    async def work(variables: VariableUseCases) -> None:
        for number in range(3):
            await variables.put(new(f"app/{number}", secret=str(number)))
        keyring, context = variables.keyring, variables.context
        old = await keyring.active_key(context)
        key = await keyring.rotate(context, full=True)
        await keyring.delete(context, old.key_id)
        with variables.context.snapshot() as snapshot:
            found = snapshot.variables.all()
        assert {each.key_id for each in found} == {key.key_id}
        assert [variables.items(each)["secret"] for each in found] == ["0", "1", "2"]

    with_variables(work)


def test_concurrent_first_writes_create_one_root_key() -> None:
    async def work(variables: VariableUseCases) -> None:
        other = VariableUseCases(variables.context, Keyring(variables.context, new_key()))
        puts = (each.put(new()) for each in (variables, other))
        results = await asyncio.gather(*puts, return_exceptions=True)
        [refused] = [each for each in results if isinstance(each, UnavailableError)]
        assert "did not wrap" in refused.message
        with variables.context.snapshot() as snapshot:
            assert len(snapshot.root_keys.all()) == 1

    with_variables(work)


def test_server_with_the_same_cluster_key_reads_variables() -> None:
    async def work(context: UseCaseContext) -> None:
        cluster_key = new_key()
        stored = await VariableUseCases(context, Keyring(context, cluster_key)).put(new(pin="1234"))
        assert VariableUseCases(context, Keyring(context, cluster_key)).items(stored) == {
            "pin": "1234"
        }
        with pytest.raises(UnavailableError, match="copy the cluster key file"):
            VariableUseCases(context, Keyring(context, new_key())).items(stored)

    with_context(work)


def test_moved_or_changed_ciphertext_is_refused() -> None:
    sealer = Sealer(new_key())
    sealed = sealer.seal("default/a", b"secret")
    assert sealer.unseal("default/a", sealed) == b"secret"
    changed = bytes([*sealed[:-1], sealed[-1] ^ 1])
    for owner, text in (("default/b", sealed), ("default/a", changed), ("default/a", b"")):
        with pytest.raises(SealError):
            sealer.unseal(owner, text)
    assert sealer.seal("default/a", b"secret") != sealed


def test_every_encryption_uses_a_new_nonce() -> None:
    sealer = Sealer(new_key())
    nonces = {sealer.seal("default/a", b"secret")[:12] for _ in range(1000)}
    assert len(nonces) == 1000


def test_cluster_key_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keyring" / "cluster.key"
    key = read_or_make_cluster_key(path, may_make=True)
    assert read_or_make_cluster_key(path, may_make=True) == key
    assert path.stat().st_mode & 0o777 == 0o600


def test_configured_cluster_key_that_is_missing_wrong_or_readable_is_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cluster.key"
    with pytest.raises(InvalidInputError, match="copy it from another server"):
        read_or_make_cluster_key(path, may_make=False)
    path.write_bytes(base64.b64encode(os.urandom(16)))
    path.chmod(0o600)
    with pytest.raises(InvalidInputError, match="32 bytes"):
        read_or_make_cluster_key(path, may_make=False)
    path.write_bytes(base64.b64encode(os.urandom(32)))
    path.chmod(0o640)
    with pytest.raises(InvalidInputError, match="chmod 600"):
        read_or_make_cluster_key(path, may_make=False)
