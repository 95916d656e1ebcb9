"""What must be true of a cluster when the bad times are over."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from pathlib import Path

from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
from tests.support.crowding import crowding
from tests.support.history import History
from tests.support.pacing import pause
from tests.support.real_cluster import HostProcess, RealCluster, until
from tests.support.state import check_invariants

ELECTION_S = 1.0
"""The longest default election time-out."""
_ATTEMPT_S = 1.0
_NAP_S = 0.02
_SAMPLE = 20
_AGAIN = 3
"""What was under way in a standstill may have to be done once more."""


class _Lateness:
    """How much later than asked for this process was woken, altogether."""

    def __init__(self) -> None:
        self.total_s = 0.0

    async def measure(self) -> None:
        while True:
            due_s = time.monotonic() + _NAP_S
            await pause(_NAP_S, "how late it ends is measured")
            self.total_s += max(0.0, time.monotonic() - due_s)


async def healthy_write_s(cluster: RealCluster) -> float:
    """How long a slow one of some writes takes while all is well: the scale of this machine."""
    leader = await cluster.leader()
    taken = []
    for _ in range(_SAMPLE):
        began_s = time.monotonic()
        answer = await leader.ask("PUT", "/v1/var/scale", b'{"Items":{"a":"b"}}')
        assert answer.status == 200, answer.text
        taken.append(time.monotonic() - began_s)
    return sorted(taken)[-2]


async def writable_again(cluster: RealCluster, since_s: float, scale_s: float) -> float:
    """Seconds from `since_s` until a write succeeded; at most two election time-outs, and what
    some writes take on this machine, for as much of it as there is. A standstill of the machine may
    have come in the midst of an election."""

    async def written() -> bool:
        asked = [_write(one) for one in cluster.servers.values() if one.is_running]
        return any(await asyncio.gather(*asked))

    late = _Lateness()
    measuring = asyncio.create_task(late.measure())
    try:
        await until(written, 600.0, "no server takes a write")
    finally:
        measuring.cancel()
    took_s = time.monotonic() - since_s
    limit_s = (2 * ELECTION_S + 20 * scale_s) * crowding() + _AGAIN * late.total_s
    assert took_s <= limit_s, f"writable after {took_s:.2f} s, not within {limit_s:.2f} s"
    return took_s


async def _write(server: HostProcess) -> bool:
    try:
        answer = await server.ask(
            "PUT", "/v1/var/again", b'{"Items":{"a":"b"}}', timeout_s=_ATTEMPT_S
        )
    except (OSError, TimeoutError):
        return False
    return answer.status == 200


async def check(cluster: RealCluster, history: History) -> None:
    """Histories, invariants, equal tables; what was acknowledged is on every server."""
    problem = history.problem()
    assert problem is None, problem
    snapshots = await _at_one_index(cluster)
    try:
        for name, snapshot in snapshots.items():
            check_invariants(snapshot)
            _check_acknowledged(name, snapshot, history)
        _check_equal(snapshots)
    finally:
        for snapshot in snapshots.values():
            snapshot.close()


async def _at_one_index(cluster: RealCluster) -> dict[str, Snapshot]:
    """Of every server's store, in which the same entries have been applied."""
    readers = {name: Store.open_reader(_file(one)) for name, one in cluster.servers.items()}

    async def equal() -> dict[str, Snapshot] | None:
        found = {name: reader.snapshot() for name, reader in readers.items()}
        if len({one.index for one in found.values()}) == 1:
            return found
        for one in found.values():
            one.close()
        return None

    await cluster.settled()
    return await until(equal, 120.0, "the stores do not come to the same index")


def _file(server: HostProcess) -> Path:
    return server.data_dir / "server" / "state" / "state.db"


def _check_acknowledged(name: str, snapshot: Snapshot, history: History) -> None:
    for key, found in history.keys.items():
        variable = snapshot.variables.get("default", key)
        newest = max((made.index for _, made in found.acknowledged), default=0)
        assert variable is not None or newest == 0, f"{name} has lost {key}"
        if variable is not None:
            assert variable.modify_index >= newest, f"{name} has lost index {newest} of {key}"
    jobs = {job.id for job in snapshot.jobs.all()}
    assert not history.jobs - jobs, f"{name} has lost {sorted(history.jobs - jobs)}"


def _check_equal(snapshots: dict[str, Snapshot]) -> None:
    digests = {name: _digests(snapshot) for name, snapshot in snapshots.items()}
    first, *others = digests
    for other in others:
        different = [t for t in digests[first] if digests[first][t] != digests[other].get(t)]
        assert not different, f"{first} and {other} differ in {different}"


def _digests(snapshot: Snapshot) -> dict[str, str]:
    """Of every table's rows, whatever order they lie in."""
    tables = snapshot.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name: _digest(snapshot, name) for (name,) in tables.fetchall()}


def _digest(snapshot: Snapshot, table: str) -> str:
    rows = snapshot.connection.execute(f"SELECT * FROM {table}").fetchall()
    return hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest()


async def the_allocation(cluster: RealCluster, job_id: str, status: str) -> str:
    """Wait until the job has one allocation, of that client status; its id."""

    async def found() -> str | None:
        leader = await cluster.leader()
        allocations = await leader.get(f"/v1/job/{job_id}/allocations")
        same = [each["ClientStatus"] for each in allocations] == [status]
        return str(allocations[0]["ID"]) if same else None

    return await until(found, 120.0, f"job {job_id} has no allocation that is {status}")


async def check_started_once(cluster: RealCluster, marks: Path, timeout_s: float = 120.0) -> None:
    """Every allocation of the marking jobs ran once, and every such job has one that did."""

    async def finished() -> bool:
        leader = await cluster.leader()
        allocations = [
            each for each in await leader.get("/v1/allocations") if each["JobType"] == "batch"
        ]
        done = {each["JobID"] for each in allocations if each["ClientStatus"] == "complete"}
        jobs = await leader.get("/v1/jobs")
        wanted = {each["ID"] for each in jobs if each["Type"] == "batch"}
        ended = all(each["ClientStatus"] in ("complete", "failed", "lost") for each in allocations)
        return ended and wanted <= done

    await until(finished, timeout_s, "the jobs do not end")
    starts = Counter(marks.read_text().split()) if marks.exists() else Counter()
    twice = [alloc for alloc, count in starts.items() if count > 1]
    assert not twice, f"allocations {twice} were started twice"
