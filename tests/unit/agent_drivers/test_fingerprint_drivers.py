"""The watch over drivers: slow ones delay nobody, changes are told once, failures are states."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agent.drivers.base import DriverInfo
from agent.drivers.mock import MockDriver
from agent.fingerprint.drivers import PERIOD_S, DriverWatch, driver_attributes
from orchgit.clock import FakeClock


class ScriptedDriver(MockDriver):
    """Answers when `answer` is set; fails with it when it is an exception."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.answer: asyncio.Future[DriverInfo] = asyncio.get_running_loop().create_future()

    async def fingerprint(self) -> DriverInfo:
        return await asyncio.shield(self.answer)


def run(scenario: Callable[[FakeClock, list[dict[str, DriverInfo]]], Awaitable[None]]) -> None:
    asyncio.run(scenario(FakeClock(), []))


def test_slow_driver_is_reported_when_it_answers() -> None:
    async def scenario(clock: FakeClock, told: list[dict[str, DriverInfo]]) -> None:
        slow = ScriptedDriver(clock)
        watch = DriverWatch({"slow": slow, "mock_driver": MockDriver(clock)}, clock, told.append)
        known = await watch.start(wait_s=0.01)
        assert known["mock_driver"].healthy
        assert not known["slow"].detected
        assert told == []
        slow.answer.set_result(DriverInfo(detected=True, healthy=True))
        await clock.advance(0)
        assert [infos["slow"].healthy for infos in told] == [True]
        await watch.stop()

    run(scenario)


def test_only_changes_are_reported_with_their_time() -> None:
    async def scenario(clock: FakeClock, told: list[dict[str, DriverInfo]]) -> None:
        driver = MockDriver(clock)
        watch = DriverWatch({"mock_driver": driver}, clock, told.append)
        first = await watch.start(wait_s=60)
        await clock.advance(3 * PERIOD_S)
        assert told == []
        driver.healthy = False
        await clock.advance(PERIOD_S)
        await clock.advance(PERIOD_S)
        assert [infos["mock_driver"].healthy for infos in told] == [False]
        before, after = first["mock_driver"].update_time, told[0]["mock_driver"].update_time
        assert before is not None
        assert after is not None
        assert (after - before).total_seconds() == 4 * PERIOD_S
        await watch.stop()

    run(scenario)


def test_driver_that_fails_is_unhealthy_not_fatal() -> None:
    async def scenario(clock: FakeClock, told: list[dict[str, DriverInfo]]) -> None:
        broken = ScriptedDriver(clock)
        broken.answer.set_exception(RuntimeError("bug"))
        watch = DriverWatch({"broken": broken}, clock, told.append)
        known = await watch.start(wait_s=60)
        assert known["broken"].health_description == "the driver failed: bug"
        assert driver_attributes(known) == {}
        await watch.stop()

    run(scenario)


def test_attributes_are_those_of_healthy_drivers() -> None:
    healthy = DriverInfo(detected=True, healthy=True, attributes={"driver.a": "1"})
    ill = DriverInfo(detected=True, healthy=False, attributes={"driver.b": "1"})
    assert driver_attributes({"a": healthy, "b": ill}) == {"driver.a": "1"}
