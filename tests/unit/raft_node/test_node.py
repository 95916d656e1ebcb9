"""The same node that runs alone, with two others: elects, commits, and writes before it speaks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchgit.raft.messages import Append, LogEntry, Message
from orchgit.raft_node.commit_delivery import REGULAR
from orchgit.raft_node.proposal import Proposal
from tests.support.raft_hub import Hub

NAMES = ["one", "two", "three"]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, NAMES)
    yield hub
    hub.close()


async def submit(hub: Hub, server: str, *payloads: bytes) -> list[Proposal]:
    proposals = [Proposal() for _ in payloads]
    for payload, proposal in zip(payloads, proposals, strict=True):
        hub.servers[server].node.submit(payload, proposal)
    return proposals


def test_commands_are_applied_by_all_in_the_same_order(hub: Hub) -> None:
    async def scenario() -> None:
        hub.servers["two"].stand_for_election()
        hub.settle()
        assert hub.leader().name == "two"
        await submit(hub, "two", b"a", b"b", b"c")
        hub.settle()
        assert [one.applied for one in hub.servers.values()] == [[b"a", b"b", b"c"]] * 3
        assert {one.node.status.leader_address for one in hub.servers.values()} == {"two"}

    asyncio.run(scenario())


def test_majority_goes_on_without_the_leader(hub: Hub) -> None:
    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        await submit(hub, "one", b"before")
        hub.settle()
        hub.cut_off.add("one")
        hub.servers["three"].stand_for_election()
        hub.settle()
        assert hub.leader().name == "three"
        await submit(hub, "three", b"after")
        hub.settle()
        assert hub.servers["two"].applied == hub.servers["three"].applied == [b"before", b"after"]
        assert hub.servers["one"].applied == [b"before"]

    asyncio.run(scenario())


def test_command_is_forwarded_to_a_leader_learned_in_the_same_turn(hub: Hub) -> None:
    """In one turn a follower learns who leads now, and gets a command to forward: nothing is lost,
    so nobody is told that the outcome is unknown."""

    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        hub.cut_off.add("three")
        hub.servers["one"].node.transfer("two", lambda begun: None)
        hub.settle()
        assert hub.leader().name == "two"
        hub.cut_off.clear()
        hub.now_s += 0.2
        hub.servers["two"].node.turn()
        hub.deliver()
        assert hub.servers["three"].node.status.leader_address == "one"
        proposal = Proposal()
        hub.servers["three"].node.submit(b"x", proposal, forward=True)
        hub.settle()
        await asyncio.sleep(0)
        assert not proposal.future.done(), "answered when it is applied"
        assert [one.applied for one in hub.servers.values()] == [[b"x"]] * 3

    asyncio.run(scenario())


def test_proposal_of_a_deposed_leader_is_answered_as_unknown(hub: Hub) -> None:
    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        hub.cut_off.update(("two", "three"))
        (proposal,) = await submit(hub, "one", b"never")
        hub.settle()
        hub.cut_off = {"one"}
        hub.servers["three"].stand_for_election()
        hub.settle()
        await submit(hub, "three", b"instead")
        hub.settle()
        hub.cut_off.clear()
        hub.settle()
        assert hub.servers["one"].applied == [b"instead"]
        await asyncio.sleep(0)
        assert proposal.future.done()
        assert "cannot tell whether" in str(proposal.future.exception())

    asyncio.run(scenario())


def test_entries_are_sent_and_counted_only_after_the_sync(hub: Hub) -> None:
    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        leader = hub.leader()
        await submit(hub, "one", b"x")
        sent: list[int] = []
        send = leader.transport.send

        def watched(receiver: str, message: Message) -> None:
            if isinstance(message, Append):
                sent.extend(message.prev_index + 1 + i for i in range(len(message.entries)))
            assert all(index <= leader.journal.synced_index for index in sent)
            send(receiver, message)

        leader.transport.send = watched  # type: ignore[method-assign]
        hub.settle()
        assert sent
        assert leader.applied == [b"x"]

    asyncio.run(scenario())


def test_vote_is_on_disk_when_it_is_sent(hub: Hub, tmp_path: Path) -> None:
    hub.servers["two"].stand_for_election()
    hub.settle()
    for server in hub.servers.values():
        assert server.journal.vote.term == server.node.status.term > 0
        assert server.journal.vote.voted_for == "two"


def test_proposals_during_a_round_go_together_in_the_next(hub: Hub) -> None:
    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        leader, sizes = hub.leader(), []
        send = leader.transport.send

        def watched(receiver: str, message: Message) -> bool:
            if isinstance(message, Append) and message.entries and receiver == "two":
                sizes.append(len(message.entries))
            return bool(send(receiver, message))

        leader.transport.send = watched  # type: ignore[method-assign]
        for payload in (b"a", b"b", b"c"):
            await submit(hub, "one", payload)
            leader.node.turn()
        assert sizes == [1], "its round is under way"
        hub.settle()
        assert sizes == [1, 2]
        assert [one.applied for one in hub.servers.values()] == [[b"a", b"b", b"c"]] * 3

    asyncio.run(scenario())


def test_entries_are_applied_only_when_the_own_disk_has_them(hub: Hub) -> None:
    """What a state has its log must have, also after a crash: even if it is known to be committed
    before it is on disk here."""
    hub.servers["one"].stand_for_election()
    hub.settle()
    follower = hub.servers["two"]
    term, last = follower.node.status.term, follower.journal.last_index
    place = (term, last, follower.journal.term(last))
    message = Append(*place, [LogEntry(term, REGULAR + b"x")], last + 1, 0)
    sync, at_sync = follower.journal.sync, []

    def watched() -> None:
        at_sync.append(list(follower.applied))
        sync()

    follower.journal.sync = watched  # type: ignore[method-assign]
    follower.transport.receive("one", message)
    follower.node.turn()
    assert at_sync[0] == []
    assert follower.applied == [b"x"]


def test_follower_applies_frequent_entries_at_intervals(hub: Hub) -> None:
    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        follower = hub.servers["two"]
        term, last = follower.node.status.term, follower.journal.last_index

        def bring(number: int) -> None:
            index = last + number
            place = (term, index, follower.journal.term(index))
            entry = LogEntry(term, REGULAR + b"%d" % number)
            follower.transport.receive("one", Append(*place, [entry], index + 1, 0))
            follower.node.turn()

        bring(0)
        assert follower.applied == [b"0"], "at once, where it comes alone"
        hub.now_s += 0.001
        bring(1)
        bring(2)
        assert follower.applied == [b"0"]
        due_s = follower.node.delivery.due_s
        assert due_s is not None
        assert hub.now_s < due_s < hub.now_s + 0.01
        hub.now_s = due_s
        follower.node.turn()
        assert follower.applied == [b"0", b"1", b"2"]
        assert follower.node.delivery.due_s is None
        hub.now_s += 0.001
        follower.node.submit(b"mine", Proposal(), forward=True)
        follower.node.turn()
        bring(3)
        assert follower.applied[-1] == b"3", "somebody waits for an answer here"

    asyncio.run(scenario())


@pytest.mark.parametrize(("stood_still", "leads"), [(True, True), (False, False)])
def test_leader_that_stood_still_while_it_waited_goes_on_leading(
    hub: Hub, stood_still: bool, leads: bool
) -> None:
    """The others were stopped with it, as all of one machine: nobody stood for election."""
    server = hub.servers["one"]
    server.stand_for_election()
    hub.settle()
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def pass_time() -> None:
            ours.recv(1)
            hub.now_s += 30.0

        server.node.loop.watch(ours.fileno(), pass_time)
        theirs.send(b"x")
        # The wait is to end after 0.02 s, or after a minute.
        server.node.wait(0.02 if stood_still else 60.0)
        server.node.loop.forget(ours.fileno())
    server.node.turn()
    assert server.node.status.is_leader is leads
