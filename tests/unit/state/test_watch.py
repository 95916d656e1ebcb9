"""Who is woken by what, and who is not."""

from __future__ import annotations

import asyncio

from orchgit.clock import SystemClock
from orchgit.state.changes import Changes, job_key, target
from orchgit.state.watch import Watch


def change(index: int, table: str, *keys: str) -> Changes:
    changes = Changes()
    changes.note(index, table, keys)
    return changes


async def waiter(watch: Watch, targets: list[str], index: int) -> asyncio.Task[int]:
    task = asyncio.create_task(watch.wait(targets, index, 3_000.0))
    await asyncio.sleep(0)
    return task


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_change_of_the_table_wakes_its_waiters_only() -> None:
    async def scenario() -> None:
        watch = Watch({}, 0)
        jobs, nodes = await waiter(watch, ["jobs"], 4), await waiter(watch, ["nodes"], 4)
        watch.publish(change(5, "jobs", "default/a"), 5)
        await settle()
        assert jobs.done()
        assert jobs.result() == 5
        assert not nodes.done()
        nodes.cancel()

    asyncio.run(scenario())


def test_change_of_another_key_does_not_wake() -> None:
    async def scenario() -> None:
        watch = Watch({}, 0)
        one = await waiter(watch, [target("evaluations", "one")], 1)
        watch.publish(change(2, "evaluations", "two"), 2)
        await settle()
        assert not one.done()
        watch.publish(change(3, "evaluations", "one", "three"), 3)
        assert await one == 3

    asyncio.run(scenario())


def test_older_index_returns_at_once() -> None:
    async def scenario() -> None:
        watch = Watch({"jobs": 9}, 9)
        assert await watch.wait(["jobs"], 8, 30.0) == 9
        assert await watch.wait([target("jobs", job_key("default", "x"))], 8, 30.0) == 9

    asyncio.run(scenario())


def test_derived_name_has_the_index_of_its_table() -> None:
    async def scenario() -> None:
        watch = Watch({"allocations": 7}, 7)
        assert watch.index([target("allocations_by_node", "n")]) == 7
        waiting = await waiter(watch, [target("allocations_by_node", "n")], 7)
        watch.publish(change(8, "allocations", "a"), 8)
        await settle()
        assert not waiting.done()
        changes = change(9, "allocations", "a")
        changes.note(9, "allocations_by_node", ["n"])
        watch.publish(changes, 9)
        assert await waiting == 9

    asyncio.run(scenario())


def test_timed_out_wait_leaves_no_waiter() -> None:
    async def scenario() -> None:
        watch = Watch({}, 0)
        assert await watch.wait(["jobs", "nodes"], 3, 0.001) == 1
        assert watch.waiter_count == 0

    asyncio.run(scenario())


def test_cancelled_wait_leaves_no_waiter() -> None:
    async def scenario() -> None:
        watch = Watch({}, 0)
        task = await waiter(watch, ["jobs"], 1)
        assert watch.waiter_count == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert watch.waiter_count == 0

    asyncio.run(scenario())


def test_change_of_one_key_wakes_none_of_a_thousand_other_waiters() -> None:
    async def scenario() -> None:
        watch = Watch({}, 0)
        tasks = [await waiter(watch, [target("allocations", str(n))], 1) for n in range(3000)]
        changes = change(2, "allocations", *(f"other-{n}" for n in range(10_000)))
        changes.note(2, "allocations", ["1234"])
        watch.publish(changes, 2)
        await settle()
        assert [n for n, task in enumerate(tasks) if task.done()] == [1234]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(scenario())


def test_until_reads_again_after_each_change() -> None:
    async def scenario() -> None:
        watch = Watch({}, 0)
        reads = []

        def read() -> tuple[str | None, int]:
            reads.append(watch.index(["jobs"]))
            return ("found" if reads[-1] == 6 else None), reads[-1]

        found = asyncio.create_task(watch.until(read, ["jobs"], SystemClock(), 120))
        for index in (5, 6):
            await settle()
            watch.publish(change(index, "jobs", "default/a"), index)
        assert await found == "found"
        assert reads == [1, 5, 6]

    asyncio.run(scenario())
