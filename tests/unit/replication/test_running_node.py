"""The way from the event loop to the raft thread and back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from orchgit.raft_node.node import RaftNode
from tests.unit.replication.raft_node_double import RaftNodeDouble, run


def test_answer_of_the_raft_thread_reaches_the_event_loop() -> None:
    async def scenario() -> None:
        def call(node: RaftNode, answer: Callable[[int], None]) -> None:
            threading.Thread(target=answer, args=(7,)).start()

        assert await RaftNodeDouble().running().ask(call) == 7

    run(scenario())


def test_answer_after_the_caller_has_given_up_is_dropped() -> None:
    async def scenario() -> None:
        answers: list[Callable[[int], None]] = []
        node = RaftNodeDouble().running()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await node.ask(lambda _, answer: answers.append(answer))
        answers[0](7)
        await asyncio.sleep(0)

    run(scenario())
