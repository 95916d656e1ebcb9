"""What others ask of a task: which request counts, and what a request interrupts."""

from __future__ import annotations

import asyncio

from agent.tasks.requests import TaskRequests
from agent.tasks.task_state import TaskEventType, event

KILL = event(TaskEventType.KILLING, 1)
RESTART = event(TaskEventType.RESTART_REQUESTED, 2)


def test_kill_outweighs_a_restart() -> None:
    requests = TaskRequests()
    assert requests.ask_restart(RESTART, counts=False)
    assert requests.ask_kill(KILL, with_delay=False)
    assert (requests.kill, requests.with_delay) == (KILL, False)
    assert not requests.ask_restart(RESTART, counts=True)


def test_second_request_of_a_kind_changes_nothing() -> None:
    requests = TaskRequests()
    assert requests.ask_restart(RESTART, counts=False)
    assert not requests.ask_restart(RESTART, counts=True)
    assert not requests.restart_counts
    assert requests.ask_kill(KILL, with_delay=True)
    assert not requests.ask_kill(KILL, with_delay=False)
    assert requests.with_delay


def test_request_interrupts_what_is_waited_for() -> None:
    async def scenario() -> None:
        requests = TaskRequests()
        never = asyncio.ensure_future(asyncio.Event().wait())
        waiting = asyncio.ensure_future(requests.unless_interrupted(never))
        await asyncio.sleep(0)
        requests.ask_restart(RESTART, counts=False)
        assert not await waiting
        assert never.cancelled()

    asyncio.run(scenario())


def test_cleared_restart_interrupts_nothing() -> None:
    async def scenario() -> None:
        requests = TaskRequests()
        requests.ask_restart(RESTART, counts=False)
        requests.clear_restart()
        assert await requests.unless_interrupted(asyncio.sleep(0))
        assert not requests.ends_attempt

    asyncio.run(scenario())
