"""The leader ends locks that nobody renews: on a real log, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from orchgit.clock import SECOND_NS, FakeClock
from orchgit.control.watchers.variable_locks import VariableLocks
from orchgit.model.variable import StoredVariable, VariableConflictError
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.secrets.sealing import new_key
from orchgit.services.secrets.variables import NewVariable, VariableUseCases, WantedLock
from tests.support.use_cases import with_context

NEW = NewVariable("default", "app/leader", {"who": "me"})
PLACE = ("default", "app/leader")
WANTED = WantedLock(ttl_ns=10 * SECOND_NS, lock_delay_ns=5 * SECOND_NS)


@asynccontextmanager
async def leading(context: UseCaseContext) -> AsyncIterator[None]:
    """The loop, as a reign runs it."""
    locks = VariableLocks(context.state, context.clock)
    feed = context.state.subscribe()
    with context.snapshot() as snapshot:
        locks.restore(snapshot)

    async def follow() -> None:
        async for batch in feed:
            locks.take(batch)

    tasks = [asyncio.create_task(locks.run()), asyncio.create_task(follow())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        feed.close()


def run(work: Callable[[VariableUseCases, FakeClock], Awaitable[None]]) -> None:
    async def inside(context: UseCaseContext) -> None:
        assert isinstance(context.clock, FakeClock)
        await work(VariableUseCases(context, Keyring(context, new_key())), context.clock)

    with_context(inside)


def held(variables: VariableUseCases) -> StoredVariable:
    with variables.context.snapshot() as snapshot:
        found = snapshot.variables.get(*PLACE)
    assert found is not None
    return found


async def released(variables: VariableUseCases) -> StoredVariable:
    """Waits for the entry that ends the lock; real time passes while it is written."""
    store = variables.context.state.store
    async with asyncio.timeout(60):
        while True:
            index = store.watch.applied_index
            if (found := held(variables)).lock is None:
                return found
            await store.watch.wait(["variables"], index, 10)


def test_lock_that_is_not_renewed_expires_after_its_ttl() -> None:
    async def work(variables: VariableUseCases, clock: FakeClock) -> None:
        async with leading(variables.context):
            await variables.acquire_lock(NEW, WANTED)
            await clock.advance(9.9)
            assert held(variables).lock is not None
            await clock.advance(0.2)
            ended = await released(variables)
            assert ended.locked_out_until_ns == ended.modify_time_ns + WANTED.lock_delay_ns
            with pytest.raises(VariableConflictError, match="lock delay"):
                await variables.acquire_lock(NEW, WANTED)
            await clock.advance(5)
            assert (await variables.acquire_lock(NEW, WANTED)).lock is not None

    run(work)


def test_renewal_extends_a_lock_and_a_write_does_not() -> None:
    async def work(variables: VariableUseCases, clock: FakeClock) -> None:
        async with leading(variables.context):
            lock_id = (await variables.acquire_lock(NEW, WANTED)).lock_id
            for _ in range(3):
                await clock.advance(6)
                await variables.renew_lock(*PLACE, lock_id)
            await clock.advance(6)
            await variables.put(NEW, lock_id=lock_id)
            await clock.advance(4.1)
            await released(variables)
            with pytest.raises(VariableConflictError):
                await variables.put(NEW, lock_id=lock_id)

    run(work)


def test_standstill_of_the_leader_ends_no_lock() -> None:
    async def work(variables: VariableUseCases, clock: FakeClock) -> None:
        async with leading(variables.context):
            lock_id = (await variables.acquire_lock(NEW, WANTED)).lock_id
            await clock.advance(6)
            clock.stand_still(60)
            await clock.advance(2)
            await variables.renew_lock(*PLACE, lock_id)
            await clock.advance(9)
            assert held(variables).lock is not None
            await clock.advance(2)
            await released(variables)

    run(work)


def test_new_leader_restarts_the_ttl_of_a_lock() -> None:
    async def work(variables: VariableUseCases, clock: FakeClock) -> None:
        async with leading(variables.context):
            await variables.acquire_lock(NEW, WANTED)
            await clock.advance(9)
        async with leading(variables.context):
            await clock.advance(9)
            assert held(variables).lock is not None
            await clock.advance(1.1)
            await released(variables)

    run(work)


def test_released_lock_does_not_expire_the_next_lock() -> None:
    async def work(variables: VariableUseCases, clock: FakeClock) -> None:
        async with leading(variables.context):
            first = await variables.acquire_lock(NEW, WANTED)
            await clock.advance(6)
            await variables.release_lock(*PLACE, first.lock_id)
            await variables.acquire_lock(NEW, WANTED)
            await clock.advance(6)
            assert held(variables).lock is not None
            with contextlib.suppress(VariableConflictError):
                await variables.delete(*PLACE)
            assert held(variables).path == PLACE[1]

    run(work)
