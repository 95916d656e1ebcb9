"""Invariant 8 over random lives of an allocation: requests, failures, restarts of the agent."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.drivers.base import TaskConfig, TaskHandle
from agent.drivers.mock import MockDriver
from orchgit.clock import Clock, FakeClock
from orchgit.errors import OrchgitError
from orchgit.model.task import RestartPolicy
from tests.support.agent_rig import AgentRig, mock_job, mock_task

STEPS = ("restart", "stop", "signal", "second", "minute", "agent", "crash", "settle")


class Witness(MockDriver):
    """Outlives the agent, as a supervisor does, and notes every task it has begun or forgotten.

    It answers a start some time after the task has begun: the agent may be gone by then.
    """

    def __init__(self, clock: Clock, answers_after_s: float) -> None:
        super().__init__(clock)
        self._answers_after_s = answers_after_s
        self.live: set[str] = set()
        self.begun: list[str] = []

    async def start_task(self, task: TaskConfig) -> TaskHandle:
        handle = await super().start_task(task)
        if task.key not in self.live:
            assert task.key not in self.begun, f"{task.key} was begun twice"
            self.begun.append(task.key)
            self.live.add(task.key)
        owner = task.key.rpartition("/")[0]
        mine = [key for key in self.live if key.rpartition("/")[0] == owner]
        assert mine == [task.key], f"two attempts at once: {mine}"
        await self._clock.sleep(self._answers_after_s)
        return handle

    async def destroy_task(self, handle: TaskHandle) -> None:
        await super().destroy_task(handle)
        self.live.discard(handle.key)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.sampled_from(STEPS), max_size=12),
    run_for=st.sampled_from(["", "1s", "30s"]),
    block=st.sampled_from(["0s", "2s"]),
    answer_s=st.sampled_from([0.0, 2.0]),
    exit_code=st.sampled_from([0, 1]),
    tasks=st.integers(1, 2),
)
@example(
    steps=["settle", "crash", "settle"],
    run_for="",
    block="0s",
    answer_s=2.0,
    exit_code=0,
    tasks=1,
)
def test_random_life_starts_no_attempt_twice_and_forgets_none(
    steps: list[str], run_for: str, block: str, answer_s: float, exit_code: int, tasks: int
) -> None:
    config: dict[str, object] = {
        "run_for": run_for, "exit_code": exit_code, "start_block_for": block,
    }  # fmt: skip
    policy = RestartPolicy(attempts=2, interval_ns=600 * 10**9, delay_ns=10**9)
    made = [mock_task(f"t{n}", config=config, restart_policy=policy) for n in range(tasks)]

    async def whole() -> None:
        with tempfile.TemporaryDirectory() as directory:
            clock = FakeClock()
            driver = Witness(clock, answer_s)
            rig = AgentRig(Path(directory), clock, {"mock_driver": driver})
            rig.deliver(mock_job(*made))
            for step in steps:
                rig = await take(step, rig, driver)
            (runner,) = list(rig.allocs)
            rig.stop(runner)
            async with asyncio.timeout(60):
                while not runner.ended.is_set():
                    await clock.advance(1)
                    await asyncio.sleep(0)
            assert driver.live == set()
            assert all(state.state == "dead" for state in runner.states.values())
            await rig.close()

    asyncio.run(whole())


async def take(step: str, rig: AgentRig, driver: Witness) -> AgentRig:
    (runner,) = list(rig.allocs)
    try:
        match step:
            case "restart":
                runner.restart()
            case "stop":
                rig.stop(runner)
            case "signal":
                await runner.signal("SIGHUP")
            case "second":
                await rig.clock.advance(1)
            case "minute":
                await rig.clock.advance(60)
            case "settle":
                for _ in range(5):  # a start needs a few turns of the writer
                    await rig.local.flush()
            case "agent" | "crash":
                if step == "agent":
                    await rig.local.flush()
                await rig.close()
                return AgentRig(rig.path, rig.clock, {"mock_driver": driver})
    except OrchgitError:
        pass  # refused requests are part of life
    return rig
