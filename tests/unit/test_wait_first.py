from __future__ import annotations

import asyncio

import pytest

from orchgit.wait_first import wait_first


class Waiting:
    """Goes on until it is cancelled, and notes when it has ended."""

    def __init__(self) -> None:
        self.ended = False

    async def forever(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended = True


async def _gives(value: str) -> str:
    return value


async def _fails() -> None:
    raise LookupError("it failed")


def test_results_come_in_the_order_of_the_waits() -> None:
    async def scenario() -> None:
        other = Waiting()
        async with wait_first(other.forever(), _gives("a")) as (slow, quick):
            assert not slow.done()
            assert quick.result() == "a"
        assert other.ended

    asyncio.run(scenario())


def test_failure_is_raised_when_its_result_is_read() -> None:
    async def scenario() -> None:
        other = Waiting()
        with pytest.raises(LookupError, match="it failed"):
            async with wait_first(_fails(), other.forever()) as (failed, _):
                failed.result()
        assert other.ended

    asyncio.run(scenario())


def test_failure_whose_result_is_not_read_is_ignored() -> None:
    async def scenario() -> None:
        async with wait_first(_fails(), asyncio.Event().wait()) as (failed, waiting):
            assert failed.done()
            assert not waiting.done()

    asyncio.run(scenario())


def test_canceled_wait_ends_every_waited_task() -> None:
    async def scenario() -> None:
        both = Waiting(), Waiting()

        async def waits() -> None:
            async with wait_first(*(each.forever() for each in both)):
                raise AssertionError("neither has ended")

        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [each.ended for each in both] == [True, True]

    asyncio.run(scenario())
