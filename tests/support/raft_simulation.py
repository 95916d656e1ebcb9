"""A whole cluster in one thread on a virtual clock, network and disk; every choice from one seed.

`Simulation(seed).run()` raises `Violation` with what went wrong. The members run the very core that
servers run. Faults: messages dropped, delayed, reordered, duplicated; partitions, also one-way;
crashes with the unsynced tail kept, lost or halved, and with the state kept or rebuilt from its
last snapshot; disks that are full for a while or for good, or lost with all they held, so that the
member is put out and taken in anew; members that stand still, one, some or all of them, and wake
with what came meanwhile; clocks that jump; leaders told to hand over; members taken in, given a
vote, removed (the leader too) and taken in again. Checked all along: one leader a term, leaders
have what was committed, logs match, every member applies the same; at the end that clients saw one
register, that a healed cluster works again, and that a standstill of all overthrows no leader.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
from collections.abc import Callable

import msgspec

from orchgit.errors import DiskFullError, InvariantError, RefusedError, UnavailableError
from orchgit.raft import messages as raft_messages
from orchgit.raft.configuration import (
    CONFIGURATION,
    Configuration,
    ConfigurationEntry,
    MemberChange,
    decode_configuration,
)
from orchgit.raft.core import RaftConfig, RaftCore, RaftReady
from orchgit.raft.leader import RaftLeader
from orchgit.raft.ports import NO_OP
from orchgit.raft.state import Timing
from tests.support.linearizable import Operation, explain
from tests.support.raft_disk import MemoryLog, MemorySnapshots, State

_TICK_S = 0.05
_HEAL_S = 6.0
_FULL_S = 4.0
"""So long after the leader's disk is full another one leads, and clients write again."""
_PAUSED_S = 3.0
"""All members at once, as on a machine that is paused: no leader is overthrown for that."""
_REGULAR = b"\x00"
LOG_ID = "simulated"
"""Members know it from the first entry that they apply."""


class Violation(AssertionError):
    """What must never happen has happened."""


class Member:
    """A core, its disk, its state; dead while `core` is None."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = name
        self.log = simulation.log_class()
        self.snapshots = MemorySnapshots(self.log)
        self.state = State()
        self.core: RaftCore | None = None
        self.clock_offset_s = 0.0
        self.waiting: dict[int, tuple[int, Operation]] = {}
        """By index: the term it was appended in, and the client's operation."""
        self.reads: list[tuple[int, Operation]] = []
        self.syncing = False
        self.put_off: list[Callable[[], None]] | None = None
        """While this member stands still: what came meanwhile."""
        self.lost_disks = 0
        self.taken_in_by: tuple[RaftCore, int, int] | None = None
        """After its disk was lost: the leader, its term, and the entry that takes it in."""
        self._simulation = simulation
        founds = name in simulation.names
        first = Configuration.of(simulation.names if founds else ())
        self._first = ConfigurationEntry(0, first, logged=False)
        """Who is taken in later waits without any configuration."""

    @property
    def alive(self) -> RaftCore:
        assert self.core is not None
        return self.core

    def now_s(self) -> float:
        return self._simulation.now_s + self.clock_offset_s

    def start(self) -> None:
        simulation = self._simulation
        config = RaftConfig(
            self.name,
            self.state.placed or self._first,
            self.state.index,
            simulation.timing,
            log_id=LOG_ID if self.state.index else "",
            waits_for_admission=bool(self.lost_disks),
        )
        self.core = simulation.core_class(
            config, self.log, self.snapshots, simulation.rng, self.now_s()
        )

    def crash(self, rng: random.Random) -> None:
        """Either the process died (the state stays as it was), or the machine."""
        self.core = self.put_off = None
        self.syncing = False
        self.waiting.clear()
        self.reads.clear()
        self.snapshots.crash()
        self.log.crash(rng)
        taken = self.snapshots.taken
        # A snapshot was received and the crash came before the state was replaced.
        overtaken = self.state.index + 1 < self.log.first_index
        if rng.random() < 0.5 or overtaken:
            self.state = msgspec.msgpack.decode(taken[1], type=State) if taken else State()

    def lose_disk(self) -> None:
        """The process too; it starts with nothing but its name."""
        self.core = self.put_off = None
        self.syncing = False
        self.waiting.clear()
        self.reads.clear()
        self.log = self._simulation.log_class()
        self.snapshots = MemorySnapshots(self.log)
        self.state = State()
        self._first = ConfigurationEntry(0, Configuration(), logged=False)
        self.taken_in_by = None
        self.lost_disks += 1
        self.start()

    @property
    def is_blank(self) -> bool:
        """It lost its disk and is not back yet."""
        has_members = self.state.members_index or self.log.of_kind(CONFIGURATION)
        catches_up = self.log.last_index < self.log.vote.from_index
        return bool(self.lost_disks) and (catches_up or not has_members)

    def forget_waiting_after(self, index: int) -> None:
        """Their entries were taken back; others may come in their places."""
        self.waiting = {at: one for at, one in self.waiting.items() if at <= index}

    def apply(self, ready: RaftReady) -> None:
        if ready.installed is not None:
            assert self.snapshots.taken is not None
            self.state = msgspec.msgpack.decode(self.snapshots.taken[1], type=State)
            self._simulation.installations += 1
        while self.state.index < ready.commit_index:
            self._apply(self.state.index + 1)
        for ticket, index in ready.reads:
            if index is not None and isinstance(ticket, Operation):
                self.reads.append((index, ticket))
        self._answer_reads()

    def _apply(self, index: int) -> None:
        record = self.log.record(index)
        if record.payload[:1] == CONFIGURATION:
            self.state.members_index = index
            self.state.members = decode_configuration(record.payload).members
        elif record.payload != NO_OP:
            self.state.value = int.from_bytes(record.payload[1:], "big")
        self.state.chain = hash((self.state.chain, record.term, record.payload))
        self.state.index = index
        self.alive.state.log_id = LOG_ID
        self._simulation.applied(self, record.term, record.payload)
        term, operation = self.waiting.pop(index, (0, None))
        if operation is not None and term == record.term:
            operation.ended = self._simulation.moment()

    def _answer_reads(self) -> None:
        for index, operation in self.reads:
            if self.state.index >= index:
                operation.value = self.state.value
                operation.ended = self._simulation.moment()
        self.reads = [one for one in self.reads if one[1].ended is None]

    def maybe_snapshot(self) -> None:
        if self.state.index > self.log.first_index:
            term = self.log.term(self.state.index)
            data = msgspec.msgpack.encode(self.state)
            self.snapshots.take(self.state.index, term, data)
            self.log.compact(self.state.index)


class Simulation:
    """`steps` are faults and client operations; the more, the longer."""

    def __init__(
        self,
        seed: int,
        core_class: type[RaftCore] = RaftCore,
        log_class: type[MemoryLog] = MemoryLog,
        duration_s: float = 12.0,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.core_class = core_class
        self.log_class = log_class
        self.timing = Timing(without_room_s=0.7)
        self.now_s = 0.0
        self.names = [f"m{i}" for i in range(self.rng.choice((3, 3, 3, 5)))]
        self.everyone = [*self.names, "s0", "s1"]
        self.members = {name: Member(self, name) for name in self.everyone}
        self.history: list[Operation] = []
        self.events = 0
        self.installations = 0
        self.refusals = 0
        self.changes = 0
        self.lost_disks = 0
        self.full_leaders = 0
        self.standstills = 0
        self._duration_s = duration_s
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._values = itertools.count(1)
        self._moments = 0
        self._blocked: set[tuple[str, str]] = set()
        self._leaders: dict[int, str] = {}
        self._committed: dict[int, tuple[int, bytes, int]] = {}
        rate = self.rng.choice((0.0, 0.02, 0.1, 0.25))
        self._drop, self._twice = rate, self.rng.choice((0.0, 0.05, 0.2))
        self._slow = self.rng.choice((0.0, 0.05, 0.2))
        self._disk_s = self.rng.choice((0.0005, 0.005, 0.03))
        self._faults_per_s = self.rng.choice((1.0, 3.0, 6.0))
        self._changes_per_s = self.rng.choice((0.0, 0.7, 4.0))
        self._losses = 4 if seed % 3 == 1 else 0
        """A disk that is lost stops changes of the members for a while: not everywhere."""
        self._calm_term = 0
        self._pauses = random.Random(-seed) if seed % 5 == 0 else None
        """Choices of standstills: their own, so that the other clusters run as ever."""

    # -- running ---------------------------------------------------------------------------------

    def run(self) -> None:
        for member in self.members.values():
            member.start()
            self._tick(member)
        self._after(self.rng.uniform(0.5, 1.5), self._fault)
        for _ in range(4):
            self._after(self.rng.uniform(0.5, 1.5), self._client)
        if self._changes_per_s:
            self._after(self.rng.uniform(0.5, 1.5), self._change)
        if self._pauses is not None:
            self._after(1.0, lambda: self._pause_some(self._pauses))
        try:
            self._run_until(self._duration_s)
            self._heal()
            self._run_until(self._duration_s + _HEAL_S * 2 / 3)
            leaders = [one.alive for one in self.members.values() if one.alive.is_leader]
            self._calm_term = max((one.state.term for one in leaders), default=0)
            end_s = self._duration_s + _HEAL_S
            if self._pauses is not None:
                end_s += _PAUSED_S
                for member in self.members.values():
                    self._stand_still(member, _PAUSED_S, is_noticed=True)
            self._run_until(end_s)
            self._check_recovered()
            self._fill_the_leader_up()
        except (InvariantError, IndexError, KeyError) as error:
            raise Violation(f"a member stopped: {error}") from error
        self._check_logs_match()
        problem = explain(self.history)
        if problem is not None:
            raise Violation(f"not linearizable: {problem}")

    def _run_until(self, end_s: float) -> None:
        while self._queue and self._queue[0][0] <= end_s:
            self.now_s, _, action = heapq.heappop(self._queue)
            self.events += 1
            action()
        self.now_s = end_s

    def _after(self, delay_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_s + delay_s, next(self._order), action))

    def moment(self) -> float:
        """Now, unlike any other moment."""
        self._moments += 1
        return self.now_s + self._moments * 1e-9

    @property
    def elections(self) -> int:
        return len(self._leaders)

    @property
    def _faulty(self) -> bool:
        return self.now_s < self._duration_s

    # -- members ---------------------------------------------------------------------------------

    def _tick(self, member: Member) -> None:
        if member.core is not None and member.put_off is None:
            member.core.state.has_room |= not member.log.is_full
            with contextlib.suppress(DiskFullError):
                member.core.tick(member.now_s())
            self._turn(member)
        self._after(_TICK_S * self.rng.uniform(0.8, 1.2), lambda: self._tick(member))

    def _turn(self, member: Member) -> None:
        """The disk takes its time; what arrives meanwhile joins the same sync."""
        if not member.syncing:
            member.syncing = True
            core = member.alive
            self._after(self._disk_s * self.rng.random(), lambda: self._synced(member, core))

    def _synced(self, member: Member, core: RaftCore) -> None:
        if member.core is not core:
            return
        if member.put_off is not None:
            member.put_off.append(lambda: self._synced(member, core))
            return
        member.syncing = False
        try:
            member.log.sync()
        except DiskFullError:
            member.log.take_back()
            member.forget_waiting_after(member.log.last_index)
            core.tail_lost()
            core.state.has_room = False
            self.refusals += 1
        core.synced()
        if core.leading is not None:
            self._check_leader(member, core)
            self._check_acknowledged(core, core.leading)
        ready = core.ready()
        for receiver, message in ready.messages:
            self._carry(member.name, receiver, raft_messages.encode(message))
        member.apply(ready)

    def _carry(self, sender: str, receiver: str, data: bytes) -> None:
        rng = self.rng
        copies = 1
        if self._faulty:
            copies = 0 if rng.random() < self._drop else 2 if rng.random() < self._twice else 1
        for _ in range(copies):
            delay_s = rng.uniform(0.0005, 0.01)
            if self._faulty and rng.random() < self._slow:
                delay_s = rng.uniform(0.01, 1.5)
            self._after(delay_s, lambda: self._deliver(sender, receiver, data))

    def _deliver(self, sender: str, receiver: str, data: bytes) -> None:
        member = self.members[receiver]
        if member.core is None or (sender, receiver) in self._blocked:
            return
        if member.put_off is not None:
            member.put_off.append(lambda: self._deliver(sender, receiver, data))
            return
        with contextlib.suppress(DiskFullError):
            member.core.step(sender, raft_messages.decode(data), member.now_s())
        self._turn(member)

    # -- clients ---------------------------------------------------------------------------------

    def _client(self) -> None:
        """One operation at a time at any member that believes to lead; next when it has ended or
        the client has lost patience."""
        self._after(self.rng.uniform(0.01, 0.3), self._client)
        leaders = [one for one in self.members.values() if one.core and one.core.is_leader]
        if not leaders:
            return
        member = self.rng.choice(leaders)
        operation = Operation(self.rng.random() < 0.5, 0, self.moment())
        if operation.is_write:
            operation.value = next(self._values)
            payload = _REGULAR + operation.value.to_bytes(4, "big")
            index = member.alive.propose(payload)
            if index is None:
                return
            member.waiting[index] = member.alive.state.term, operation
        else:
            member.alive.read(operation)
        self.history.append(operation)
        self._turn(member)

    # -- members that come and go ----------------------------------------------------------------

    def _change(self) -> None:
        """An operator asks whoever believes to lead; most of it is refused."""
        if not self._faulty:
            return
        self._after(self.rng.expovariate(self._changes_per_s), self._change)
        if self._has_blank:
            return
        leaders = [one for one in self.members.values() if one.core and one.core.is_leader]
        if leaders:
            self._change_by(self.rng.choice(leaders))

    def _change_by(self, member: Member, again: bool = False) -> None:
        """Often it is cut off just then, so that the change is in doubt."""
        if not self._faulty or member.core is None or not member.core.is_leader:
            return
        if self._has_blank:
            return
        if again or self.rng.random() < 0.4:
            self._blocked |= {(member.name, other) for other in self.everyone}
            self._after(self.rng.uniform(0.7, 2.0), lambda: self._lead_again(member))
        with contextlib.suppress(RefusedError, UnavailableError):
            member.core.change_members(self._some_change(member, removes=again))
        self._turn(member)

    def _lead_again(self, member: Member) -> None:
        """Its change was taken back meanwhile, or comes into force now; then the next."""
        if self._faulty:
            self._blocked.clear()
            self._after(self.rng.uniform(0.2, 0.6), lambda: self._transfer_to(member.name))
            self._after(self.rng.uniform(0.6, 1.2), lambda: self._change_by(member, again=True))

    def _some_change(self, leader: Member, removes: bool) -> MemberChange:
        configuration = leader.alive.state.log.configuration
        learners = sorted(configuration.addresses - configuration.voters)
        strangers = [name for name in self.everyone if name not in configuration.addresses]
        kind = 0.7 if removes else self.rng.random()
        if kind < 0.35 and learners:
            return MemberChange(self.rng.choice(learners), voter=True)
        if kind < 0.5 and strangers:
            return MemberChange(self.rng.choice(strangers), voter=False)
        if kind < 0.6:
            return MemberChange(leader.name, voter=None)
        candidates = configuration.voters if removes else configuration.addresses
        return MemberChange(self.rng.choice(sorted(candidates)), voter=None)

    # -- disks that are lost ---------------------------------------------------------------------

    @property
    def _has_blank(self) -> bool:
        return any(one.is_blank for one in self.members.values())

    def _lose_disk(self, member: Member) -> None:
        """One at a time, of at least three that agree on who they are: with more than that lost, or
        a change under way that needs this one, a cluster has to stand still."""
        cores = [one.core for one in self.members.values()]
        voters = member.alive.state.log.configuration.voters if member.core else frozenset()
        if self._has_blank or len(voters) < 3 or member.name not in voters:
            return
        for core in cores:
            if core is None or not core.state.log.is_configuration_committed:
                return
            if core.state.name in voters and core.state.log.configuration.voters != voters:
                return
        self.lost_disks += 1
        member.lose_disk()
        self._after(self.rng.uniform(0.05, 1.0), lambda: self._ask_to_be_taken_in(member))

    def _ask_to_be_taken_in(self, member: Member) -> None:
        """As `services.cluster.membership.add_server` does it, until that is done."""
        if not self._has_blank:
            return
        self._after(self.rng.uniform(0.1, 0.4), lambda: self._ask_to_be_taken_in(member))
        if member.core is None or not member.core.membership.waits_for_admission:
            return
        leaders = [one for one in self.members.values() if one.core and one.core.is_leader]
        if leaders and member.taken_in_by is None:
            leader = self.rng.choice(leaders)
            if all((leader.name, member.name) != one for one in self._blocked):
                self._take_in(leader, member)
        elif member.taken_in_by is not None:
            self._admit(member, *member.taken_in_by)

    def _take_in(self, leader: Member, member: Member) -> None:
        core = leader.alive
        progress = {one.address: one for one in core.peer_progress()}
        if member.name in progress and progress[member.name].last_contact_s < 1.5:
            return
        with contextlib.suppress(RefusedError, UnavailableError):
            if member.name in core.state.log.configuration.addresses:
                core.change_members(MemberChange(member.name, voter=None))
            else:
                index = core.change_members(MemberChange(member.name, voter=False))
                if index is not None:
                    member.taken_in_by = core, core.state.term, index
        self._turn(leader)

    def _admit(self, member: Member, leader: RaftCore, term: int, index: int) -> None:
        """The leader's answer comes when that is committed, or never."""
        runs = self.members[leader.state.name].core is leader
        if not runs or not leader.is_leader or leader.state.term != term:
            member.taken_in_by = None
        elif leader.state.log.commit_index >= index:
            with contextlib.suppress(DiskFullError):
                member.alive.membership.admit(term, leader.state.log.commit_index)

    # -- faults ----------------------------------------------------------------------------------

    def _fault(self) -> None:
        if not self._faulty:
            return
        fault = self.rng.choices(
            (self._crash, self._partition, self._one_way, self._mend, self._jump,
             self._snapshot, self._transfer, self._fill_disk, self._lose_disk),
            (4, 2, 3, 3, 1, 2, 1, 2, self._losses),
        )[0]  # fmt: skip
        leaders = [one for one in self.members.values() if one.core and one.core.is_leader]
        among = leaders if leaders and self.rng.random() < 0.5 else list(self.members.values())
        fault(self.rng.choice(among))
        if self.rng.random() < 0.1:
            self._check_logs_match()
        self._after(self.rng.expovariate(self._faults_per_s), self._fault)

    def _crash(self, member: Member) -> None:
        if member.core is not None:
            member.crash(self.rng)
            self._after(self.rng.uniform(0.01, 2.0), lambda: self._restart(member))

    def _restart(self, member: Member) -> None:
        if member.core is None:
            member.start()
            self._turn(member)

    def _partition(self, member: Member) -> None:
        """Some on one side, the others on the other."""
        side = set(self.rng.sample(self.everyone, self.rng.randint(1, len(self.everyone) // 2)))
        self._blocked = {
            (a, b) for a in self.everyone for b in self.everyone if (a in side) != (b in side)
        }

    def _one_way(self, member: Member) -> None:
        """It is heard by nobody, or hears nobody, or only of one."""
        others = [name for name in self.everyone if name != member.name]
        some = self.rng.sample(others, self.rng.randint(1, len(others)))
        forth = self.rng.random() < 0.5
        self._blocked |= {(member.name, n) if forth else (n, member.name) for n in some}

    def _mend(self, member: Member) -> None:
        self._blocked.clear()

    def _jump(self, member: Member) -> None:
        member.clock_offset_s += self.rng.choice((-3.0, -0.4, 0.4, 3.0))

    def _pause_some(self, rng: random.Random) -> None:
        """Some members, or all of them; some do not notice, as a thread that stops in its work."""
        if not self._faulty:
            return
        for name in rng.sample(self.everyone, rng.choice((1, 1, 2, len(self.everyone)))):
            length_s = rng.choice((0.2, 0.7, 2.0, 4.0))
            self._stand_still(self.members[name], length_s, is_noticed=rng.random() < 0.75)
        self._after(rng.expovariate(0.7), lambda: self._pause_some(rng))

    def _stand_still(self, member: Member, length_s: float, is_noticed: bool) -> None:
        if member.core is None or member.put_off is not None:
            return
        self.standstills += 1
        put_off: list[Callable[[], None]] = []
        member.put_off = put_off
        began_s = member.now_s()

        def wake() -> None:
            if member.put_off is put_off:
                # A wait that would have ended with the next tick has lasted longer.
                self._wake(member, member.now_s() - began_s - _TICK_S if is_noticed else 0.0)

        self._after(length_s, wake)

    def _wake(self, member: Member, late_s: float) -> None:
        """As `RaftNode` does it: first what it was late, then what has come, then the time."""
        put_off, member.put_off = member.put_off or [], None
        core = member.alive
        if late_s >= self.timing.heartbeat_s:
            core.stood_still(late_s, member.now_s())
        for action in put_off:
            action()
        with contextlib.suppress(DiskFullError):
            core.tick(member.now_s())
        self._turn(member)

    def _snapshot(self, member: Member) -> None:
        member.maybe_snapshot()

    def _transfer(self, member: Member) -> None:
        self._transfer_to(self.rng.choice(self.everyone))

    def _transfer_to(self, name: str) -> None:
        for one in self.members.values():
            if self._faulty and one.core is not None and one.core.is_leader:
                one.core.transfer(name)

    def _fill_disk(self, member: Member) -> None:
        member.log.is_full = True
        member.log.votes_in_place = self.rng.random() < 0.5
        self._after(self.rng.uniform(0.01, 2.0), lambda: self._clear_disk(member))

    def _clear_disk(self, member: Member) -> None:
        member.log.is_full = False

    def _heal(self) -> None:
        self._blocked.clear()
        for member in self.members.values():
            member.log.is_full = False
            if member.put_off is not None:
                self._wake(member, 0.0)
            self._restart(member)
            # A clock that went back stands still for its member until it is where it was.
            stands_still_s = member.alive.state.now_s - member.now_s()
            member.clock_offset_s += max(0.0, stands_still_s)

    # -- what must hold --------------------------------------------------------------------------

    def _check_leader(self, member: Member, core: RaftCore) -> None:
        known = self._leaders.get(core.state.term)
        if known == member.name:
            return
        if known is not None:
            raise Violation(f"two leaders in term {core.state.term}: {known} and {member.name}")
        self._leaders[core.state.term] = member.name
        log = core.state.log
        for index, (term, _, committed_in) in self._committed.items():
            if committed_in >= core.state.term or index < log.first_index:
                continue
            if index > log.last_index or log.term(index) != term:
                raise Violation(f"{member.name} leads term {core.state.term} without entry {index}")

    def _check_acknowledged(self, core: RaftCore, leading: RaftLeader) -> None:
        """What a leader counts is on that member's disk while it follows in the same term."""
        for name, peer in leading.tracker.peers.items():
            log = self.members[name].log
            if log.vote.term == core.state.term and log.synced_index < peer.match:
                raise Violation(f"{name} took back entries up to {peer.match}")

    def applied(self, member: Member, term: int, payload: bytes) -> None:
        index = member.state.index
        self.changes += index not in self._committed and payload[:1] == CONFIGURATION
        known = self._committed.setdefault(index, (term, payload, member.alive.state.term))
        if known[:2] != (term, payload):
            raise Violation(f"{member.name} applied another entry {index} than was committed")

    def _fill_the_leader_up(self) -> None:
        """In some clusters, for good: where the others are a majority, one of them leads then."""
        (leader,) = [one for one in self.members.values() if one.alive.is_leader]
        voters = leader.alive.state.log.configuration.voters
        if self.seed % 4 or not leader.alive.state.log.configuration.is_majority(
            voters - {leader.name}
        ):
            return
        leader.log.is_full = True
        self.full_leaders += 1
        self._run_until(self.now_s + _FULL_S)
        late = [one for one in self.history if one.is_write and one.began > self.now_s - 1.5]
        if not any(one.ended is not None for one in late):
            raise Violation("a leader whose disk is full keeps the lead")

    def _check_logs_match(self) -> None:
        logs = [member.log for member in self.members.values()]
        for one, other in itertools.combinations(logs, 2):
            first = max(one.first_index, other.first_index)
            same = False
            for index in range(min(one.last_index, other.last_index), first, -1):
                mine, theirs = one.record(index), other.record(index)
                if mine != theirs and (same or mine.term == theirs.term):
                    raise Violation(f"logs do not match at {index}")
                same = same or mine.term == theirs.term

    def _check_recovered(self) -> None:
        leaders = [one for one in self.members.values() if one.alive.is_leader]
        if not leaders:
            raise Violation("no leader after everything was mended")
        leader = max(leaders, key=lambda one: one.alive.state.term)
        if leader.alive.state.term != self._calm_term or len(leaders) > 1:
            raise Violation("a leader is overthrown although nothing is wrong")
        members = leader.alive.state.log.configuration.addresses
        indexes = [self.members[name].state.index for name in sorted(members)]
        if min(indexes) + 20 < max(indexes):
            raise Violation(f"a member does not catch up: they are at {indexes}")
        chains = {(one.state.index, one.state.chain) for one in self.members.values()}
        if len(chains) > len({index for index, _ in chains}):
            raise Violation("members at the same index have different states")
        late = [one for one in self.history if one.began > self.now_s - 2.0]
        if not any(one.ended is not None for one in late):
            raise Violation("no operation succeeds after everything was mended")
