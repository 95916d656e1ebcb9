"""Wake-ups of a loop: none gets lost, and many before a round cause one round."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.clock import FakeClock
from orchgit.gitops.sources.wakeups import Asker, Wake, Wakeups


def test_a_request_during_the_work_causes_one_more_round() -> None:
    async def body() -> None:
        wakeups = Wakeups(FakeClock())
        wakeups.request(Wake("webhook"))
        wakeups.request(Wake("api", force=True))
        assert await wakeups.next(60) == Wake("webhook", force=True)
        wakeups.request(Wake("push"))
        wakeups.request(Wake("push"))
        assert await wakeups.next(60) == Wake("push")

    asyncio.run(body())


def test_round_for_a_poll_and_another_reason_is_no_poll() -> None:
    async def body() -> None:
        wakeups = Wakeups(FakeClock())
        wakeups.request(Wake("poll"))
        wakeups.request(Wake("webhook"))
        assert await wakeups.next(60) == Wake("webhook")

    asyncio.run(body())


def test_round_that_somebody_asked_for_names_who_it_was() -> None:
    async def body() -> None:
        wakeups = Wakeups(FakeClock())
        wakeups.request(Wake("watch"))
        wakeups.request(Wake("api", force=True))
        wakeups.request(Wake("api", force=True, asker=Asker("ada")))
        wakeups.request(Wake("api", force=True, asker=Asker("bob")))
        assert await wakeups.next(60) == Wake("api", force=True, asker=Asker("ada"))

    asyncio.run(body())


def test_round_handles_requests_made_before_it_started() -> None:
    async def body() -> None:
        wakeups = Wakeups(FakeClock())
        wakeups.request(Wake("api"))
        await wakeups.next(60)
        wakeups.request(Wake("api"))
        assert (wakeups.requested, wakeups.handled) == (2, 1)
        await wakeups.next(60)
        assert (wakeups.requested, wakeups.handled) == (2, 2)

    asyncio.run(body())


def test_timeout_without_a_request_is_a_poll() -> None:
    async def body() -> None:
        clock = FakeClock()
        wakeups = Wakeups(clock)
        waiting = asyncio.create_task(wakeups.next(15))
        await clock.advance(14.9)
        assert not waiting.done()
        await clock.advance(0.2)
        assert await waiting == Wake("poll")

    asyncio.run(body())


def test_a_request_ends_the_wait_at_once() -> None:
    async def body() -> None:
        clock = FakeClock()
        wakeups = Wakeups(clock)
        waiting = asyncio.create_task(wakeups.next(15))
        await clock.advance(1)
        wakeups.request(Wake("webhook"))
        assert await waiting == Wake("webhook")

    asyncio.run(body())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_every_request_is_followed_by_a_round_that_starts_after_it(steps: list[bool]) -> None:
    """True: a request; False: the loop takes its next round, if one is due."""

    async def body() -> None:
        clock = FakeClock()
        wakeups = Wakeups(clock)
        unserved = False
        for is_request in [*steps, False]:
            if is_request:
                wakeups.request(Wake("webhook"))
                unserved = True
            elif unserved:
                async with asyncio.timeout(60):
                    assert (await wakeups.next(1e9)).trigger == "webhook"
                unserved = False
        more = asyncio.create_task(wakeups.next(1e9))
        await clock.advance(1)
        assert not more.done(), "a round without a request"
        more.cancel()

    asyncio.run(body())
