"""A scope that ends when its server stops leading."""

from __future__ import annotations

import asyncio

import pytest

from orchgit.errors import NotLeaderError
from orchgit.replication.leadership import Leadership, WhileLeading


def _leading() -> Leadership:
    leadership = Leadership()
    leadership.set(True)
    return leadership


def test_loss_ends_what_waits_inside_and_leaves_the_task_as_it_was() -> None:
    async def test() -> None:
        leadership = _leading()

        async def waits() -> int:
            with pytest.raises(NotLeaderError):
                async with leadership.while_leading():
                    await asyncio.Event().wait()
            task = asyncio.current_task()
            assert task is not None
            await asyncio.sleep(0)
            return task.cancelling()

        waiting = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        leadership.set(False)
        assert await waiting == 0

    asyncio.run(test())


def test_what_is_told_to_go_on_outlives_the_loss() -> None:
    async def test() -> None:
        leadership = _leading()
        scopes: list[WhileLeading] = []
        end = asyncio.Event()

        async def goes_on() -> str:
            async with leadership.while_leading() as scope:
                scopes.append(scope)
                await end.wait()
            return "whole"

        going = asyncio.ensure_future(goes_on())
        await asyncio.sleep(0)
        scopes[0].go_on()
        leadership.set(False)
        end.set()
        assert await going == "whole"

    asyncio.run(test())


def test_a_cancellation_of_the_task_itself_is_no_loss() -> None:
    async def test() -> None:
        leadership = _leading()

        async def waits() -> None:
            async with leadership.while_leading():
                await asyncio.Event().wait()

        waiting = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        again = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        again.cancel()
        leadership.set(False)
        with pytest.raises(asyncio.CancelledError):
            await again

    asyncio.run(test())


def test_a_server_that_does_not_lead_does_not_begin() -> None:
    async def test() -> None:
        with pytest.raises(NotLeaderError):
            async with Leadership().while_leading():
                raise AssertionError("begun without leadership")

    asyncio.run(test())


def test_work_that_has_ended_is_not_ended_again_by_a_later_loss() -> None:
    async def test() -> None:
        leadership = _leading()
        async with leadership.while_leading():
            pass
        leadership.set(False)
        await asyncio.sleep(0)

    asyncio.run(test())
