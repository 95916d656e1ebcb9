"""Work in a thread under a lock of the event loop, when the task that waits for it is canceled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from orchgit.cancellation import to_thread_until_done


def test_canceled_task_keeps_its_lock_until_its_thread_has_ended() -> None:
    async def run() -> None:
        lock, begun, may_end = asyncio.Lock(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            may_end.wait(10)

        async def hold() -> None:
            async with lock:
                await to_thread_until_done(work)

        holder = asyncio.create_task(hold())
        await asyncio.to_thread(begun.wait, 10)
        for _ in range(2):  # even a second cancellation does not leave the thread behind
            holder.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert lock.locked()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await holder
        assert not lock.locked()

    asyncio.run(run())


def test_result_and_error_of_the_thread_are_the_callers() -> None:
    async def run() -> None:
        assert await to_thread_until_done(int, "7") == 7
        with pytest.raises(ValueError, match="seven"):
            await to_thread_until_done(int, "seven")

    asyncio.run(run())
